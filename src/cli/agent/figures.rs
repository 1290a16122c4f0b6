//! The agent's figures, counted as things happen.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::refusal::NO_QUORUM;
use super::reply::Reply;

/// The figures.
pub struct Figures {
    /// Locks that are held.
    pub held: Arc<AtomicU64>,
    /// Requests that wait.
    pub waiting: Arc<AtomicU64>,
    /// Acquisitions for which no majority answers.
    pub outages: Arc<AtomicU64>,
    /// Connections so far.
    pub accepted: AtomicU64,
    /// For each command, by its place in the table: its results.
    pub requests: Box<[[AtomicU64; RESULTS.len()]]>,
    /// The reasons of losses.
    losses: Mutex<BTreeMap<&'static str, u64>>,
}

/// One that is counted until it is dropped.
pub struct Counted(Arc<AtomicU64>);

impl Figures {
    /// The figures of an agent with this many commands.
    pub fn of(commands: usize) -> Figures {
        Figures {
            held: Arc::default(),
            waiting: Arc::default(),
            outages: Arc::default(),
            accepted: AtomicU64::default(),
            requests: (0..commands).map(|_| Default::default()).collect(),
            losses: Mutex::default(),
        }
    }

    /// Counts a request for the command at this place of the table, by its last reply.
    pub fn count(&self, command: usize, reply: Option<&Reply>) {
        let result = reply.map_or(0, result);
        if let Some(count) = self.requests.get(command).and_then(|results| results.get(result)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts a lock that was lost.
    pub fn count_loss(&self, why: &'static str) {
        *self.losses().entry(why).or_default() += 1;
    }

    /// The losses so far, by their reasons.
    pub fn losses(&self) -> MutexGuard<'_, BTreeMap<&'static str, u64>> {
        self.losses.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Counted {
    pub fn new(count: &Arc<AtomicU64>) -> Counted {
        count.fetch_add(1, Ordering::Relaxed);
        Counted(Arc::clone(count))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The place of a reply's result in the list of them.
fn result(reply: &Reply) -> usize {
    let name = match reply {
        Reply::Null | Reply::Int(0) => "no",
        Reply::Error(text) if text.starts_with("DONE ") => "done",
        Reply::Error(text) if text.starts_with(NO_QUORUM) => "no_quorum",
        Reply::Error(_) => "error",
        _ => "yes",
    };
    RESULTS.iter().position(|result| *result == name).unwrap_or_default()
}

/// The results of requests. `no` is null or 0.
pub const RESULTS: [&str; 5] = ["yes", "no", "done", "no_quorum", "error"];
