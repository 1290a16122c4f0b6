//! The rules of dlock.
//!
//! Everything that decides who holds a lock is here, and nothing else: no clock, no randomness,
//! no IO, no `unsafe`. A server lends its keyspace through the [`Host`] trait, says what time it
//! is, and carries out the effects. In reading order:
//!
//! - [`words`]: the vocabulary. Fence, lease, deadline, mode, key.
//! - [`limits`]: every limit, named once.
//! - [`lock`]: one lock, its holders, and the requests it admits.
//! - [`done`]: a mark that a lock is done, and need not be taken for a while.
//! - [`queue`]: the waiters of a lock, in order of arrival.
//! - [`durability`]: state that must outlive a crash; the state file has it before a grant.
//! - [`cluster`]: the slot of a key.
//! - [`settings`]: the operator's settings.
//! - [`server`]: all locks of one server: acquire, release, extend, hand-over, expiry.
//! - [`observed`]: figures for an operator: lengths of waits and holds, the keys with the longest waits.
//! - [`who`]: a holder or a waiter, as an operator may see it.
//! - [`host`]: the trait that the server around a node implements.
//! - [`reason`]: the reasons for which the rules refuse a request.
//! - [`command`]: the commands, one file each: syntax and documentation.
//! - [`quirks`]: the differences between versions of Redis and Valkey.
//! - [`snapshot`]: the versioned form in which a lock is stored.
//! - [`mark`]: the largest fence that a resource has seen.
//! - [`quorum`]: one lock over several nodes, as their client sees it.
//! - [`shares`]: fair shares of a limited store.
//! - [`packed`]: the compact form in which a held lock lies in memory.
//! - [`deadlines`]: an ordered index of deadlines.
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

pub mod cluster;
pub mod command;
pub mod deadlines;
pub mod done;
pub mod durability;
pub mod host;
pub mod limits;
pub mod lock;
pub mod mark;
pub mod observed;
pub mod packed;
pub mod queue;
pub mod quirks;
pub mod quorum;
pub mod reason;
pub mod server;
pub mod settings;
pub mod shares;
#[cfg(any(test, feature = "simulated"))]
pub mod simulated;
pub mod snapshot;
mod varint;
pub mod who;
pub mod words;

pub use done::{Done, Until};
pub use durability::promise::Promise;
pub use durability::quarantine::{Cause, Policy, Start};
pub use durability::record::{Ended, Record};
pub use host::{Answers, Effect, Ending, Host, Memory, Serves, WaitOutcome};
pub use lock::{Crowd, Found, Grant, Holder, Holders, Renewal};
pub use reason::Reason;
pub use server::{Acquired, Node};
pub use settings::Settings;
pub use words::{
    ClientId, Deadline, Fence, Instant, Key, KeyBuf, Lease, Millis, Mode, Owner, Time, WaiterId,
};
