//! The rules of dlock.
//!
//! All rules that decide which client holds a lock are here, without clock, randomness, IO or `unsafe`. A
//! server lends its keyspace through the [`Host`] trait, passes the time, and carries out the effects. In
//! reading order:
//!
//! - [`words`]: the vocabulary. Fence, lease, deadline, mode, key.
//! - [`limits`]: every limit, named once.
//! - [`reason`]: the reasons why the rules refuse a request.
//! - [`lock`]: one lock, its holders, its queue, its completion record.
//! - [`durability`]: state that must survive a crash; the state file covers a grant before it is made.
//! - [`node`]: all locks of one server: acquire, release, extend, hand-over, expiry.
//! - [`quorum`]: one lock over several nodes, as their client sees it.
//! - [`command`]: the commands, one file each: syntax and documentation.
//! - [`stored`]: the storage formats of locks.
//! - [`servers`]: the differences between servers.
//! - `simulated`: a server in memory, for tests (feature `simulated`).

#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)
)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod command;
pub mod durability;
pub mod limits;
pub mod lock;
pub mod node;
pub mod quorum;
pub mod reason;
pub mod servers;
#[cfg(any(test, feature = "simulated"))]
pub mod simulated;
pub mod stored;
pub mod words;

pub use durability::promise::Promise;
pub use durability::quarantine::{Cause, Policy, Start};
pub use durability::record::{Ended, Record};
pub use lock::done::{Done, Until};
pub use lock::{Crowd, Found, Grant, Holder, Holders};
pub use node::host::{Answers, Effect, Ending, Host, Memory, Serves, WaitOutcome};
pub use node::settings::Settings;
pub use node::{Acquired, Node};
pub use reason::Reason;
pub use words::{
    ClientId, Deadline, Fence, Instant, Key, KeyBuf, Lease, Millis, Mode, Owner, Time, WaiterId,
};
