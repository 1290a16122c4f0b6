//! A client that wants one lock: the product's machines, and the client's plans for the lock.

use std::collections::{BTreeMap, BTreeSet};

use dlock_core::quorum::{Acquisition, Hold, Requests, Rules};
use dlock_core::words::Patience;
use dlock_core::{Instant, KeyBuf, Millis, Mode};

use super::truth::{Truth, Under};

/// A client.
#[derive(Debug)]
pub struct Task<R: Rules> {
    /// The client's process.
    pub process: usize,
    /// The lock.
    pub key: KeyBuf,
    /// The mode of the hold.
    pub mode: Mode,
    /// The limit of the wait for it.
    pub wait: Patience,
    /// A node may take this long.
    pub timeout: Millis,
    /// The state of its machine.
    pub machine: Machine<R>,
    /// The time of its beginning.
    pub begun: u64,
    /// The requests under way, by node and request.
    pub open: BTreeMap<(usize, u32), Under>,
    /// The connections that wait, by attempt and node: the newest, and those that did not answer.
    pub waits: BTreeMap<(u32, usize), Vec<u64>>,
    /// The requests of each token to each node, by attempt and node.
    pub requests: BTreeMap<(u32, usize), Requests>,
    /// The newest request to each node.
    pub newest: BTreeMap<usize, u32>,
    /// The nodes that say that it does not hold.
    pub disowned: BTreeSet<usize>,
    /// An operator has ended its lock: the deadline for its client to notice, if it held.
    pub ended: Option<u64>,
    /// The nodes that have answered it since then, and before that time.
    pub heard_since: BTreeSet<usize>,
    /// The leases that it may rely on.
    pub truth: Truth,
    /// True after a node was raised.
    pub raised: bool,
    /// The attempt that is going on.
    pub attempt: u32,
    /// The plans for the lock: the length of the hold, and of the lease.
    pub means: Means,
    /// True if a deposed primary that has not learned of its replacement has granted it a lease.
    pub is_astray: bool,
    /// The time of its first attempt to leave the lock done.
    pub finishes_since: u64,
    /// The number of the alarm that counts.
    pub alarm: u64,
}

/// The task's plans for a lock.
#[derive(Clone, Copy, Debug)]
pub struct Means {
    /// The lock is held this long.
    pub hold: u64,
    /// True if it is renewed meanwhile.
    pub renews: bool,
    /// The longer lease that the task asks for in between.
    pub lengthen: Option<Millis>,
    /// The lock is left done for this long, in place of being given back.
    pub finishes: Option<Millis>,
    /// The task takes the lock though it is done.
    pub again: bool,
    /// The task gives up after this long, if it does not hold by then.
    pub patience: Option<u64>,
}

/// The state of a client.
#[derive(Debug)]
pub enum Machine<R: Rules> {
    /// The client tries to get the lock.
    Trying(Box<Acquisition<R>>),
    /// The client holds the lock.
    Holding(Box<Hold<R>>),
    /// The client does nothing any more.
    Over,
}

impl<R: Rules> Task<R> {
    /// The machine's next alarm, by its own clock.
    pub fn wake(&self) -> Option<Instant> {
        match &self.machine {
            Machine::Trying(acquisition) => acquisition.wake(),
            Machine::Holding(hold) => hold.wake(),
            Machine::Over => None,
        }
    }

    /// True once the task is over.
    pub fn is_over(&self) -> bool {
        matches!(self.machine, Machine::Over)
    }
}
