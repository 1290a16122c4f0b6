//! The rules of dlock.
//!
//! Everything that decides who holds a lock is here, and nothing else: no clock, no randomness,
//! no IO, no `unsafe`. A server lends its keyspace through the [`Host`] trait, says what time it
//! is, and carries out the effects. In reading order:
//!
//! - [`words`]: the vocabulary. Fence, lease, deadline, mode, key.
//! - [`limits`]: every limit, named once.
//! - [`lock`]: one lock and who holds it; whom it admits.
//! - [`queue`]: who waits for it, and who is next.
//! - [`fence`]: the counter that only grows.
//! - [`clock`]: the time that fences go by, which never goes back.
//! - [`cluster`]: the slot of a key.
//! - [`bounds`]: how long leases can run: the usual ones, and those of a few keys.
//! - [`bound`]: how much longer any lease can run, at most: what of it is written down, and when.
//! - [`promise`]: what a node says of both beforehand; [`record`]: how the state file keeps it.
//! - [`settings`]: what an operator can set.
//! - [`quarantine`]: when a node may have forgotten leases, and what follows.
//! - [`node`]: all locks of one server: acquire, release, extend, hand-over, expiry.
//! - [`seen`]: what an operator sees: lengths of waits and holds, the keys that hurt most.
//! - [`host`]: what a node needs from the server around it.
//! - [`command`]: one file a command: how it is written, and how it is documented.
//! - [`snapshot`]: the versioned form in which a lock is stored.
//! - [`mark`]: the largest fence that a resource has seen.
//! - [`quorum`]: one lock over several nodes, as their client sees it.
//! - [`shares`]: a store of which nobody takes more than is left for others.
//! - [`packed`]: the compact form in which a held lock lies in memory.
//! - [`deadlines`]: the ordered index of what ends when.

#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)
)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod bound;
pub mod bounds;
pub mod clock;
pub mod cluster;
pub mod command;
pub mod deadlines;
pub mod fence;
pub mod host;
pub mod limits;
pub mod lock;
pub mod mark;
pub mod node;
pub mod packed;
pub mod promise;
pub mod quarantine;
pub mod queue;
pub mod quorum;
pub mod record;
pub mod seen;
pub mod settings;
pub mod shares;
pub mod snapshot;
mod varint;
pub mod words;

pub use bounds::Bounds;
pub use host::{Answers, Effect, Ending, Host, Memory, Serves, WaitOutcome};
pub use lock::{Crowd, Found, Grant, Holder, Holders, Renewal};
pub use node::{Acquired, Node};
pub use promise::Promise;
pub use quarantine::{Cause, Policy, Start};
pub use record::{Ended, Record};
pub use settings::Settings;
pub use words::{
    ClientId, Deadline, Fence, Instant, Key, KeyBuf, Lease, Millis, Mode, Owner, Time, WaiterId,
};
