//! The limit of waiting connections in this process.
//!
//! Each request that waits has a connection of its own, and so an open file of the process. Many waiters must
//! not use up all files: other code would fail to open its own. A waiter without a permit polls, over the
//! shared connection; the server's queue keeps its place meanwhile.

use std::fs;
use std::process;
use std::sync::{Arc, Mutex};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tracing::warn;

/// The right to a waiting connection, until this is dropped.
pub(crate) type Permit = OwnedSemaphorePermit;

/// Returns a permit, if one is free. Requests that queue leave a quarter to clients that are next in line: while one
/// of those polls, the lock stays idle.
pub(crate) fn take(queues: bool) -> Option<Permit> {
    let (permits, all) = of_this_process();
    let is_free = !queues || permits.available_permits() > all / 4;
    let permit = is_free.then(|| permits.try_acquire_owned().ok()).flatten();
    if permit.is_none() {
        tell();
    }
    permit
}

/// Returns the permits and their number. A child of a fork has none of its parent's connections.
fn of_this_process() -> (Arc<Semaphore>, usize) {
    let Ok(mut known) = KNOWN.lock() else { return (Arc::new(Semaphore::new(1)), 1) };
    let process = process::id();
    known.take_if(|known| known.process != process);
    let known = known.get_or_insert_with(|| {
        let all = most(&fs::read_to_string(LIMITS).unwrap_or_default());
        Known { process, permits: Arc::new(Semaphore::new(all)), all, told: false }
    });
    (Arc::clone(&known.permits), known.all)
}

/// Warns, once in a process, that some waiters poll.
fn tell() {
    if let Ok(mut known) = KNOWN.lock()
        && let Some(known) = known.as_mut().filter(|known| !known.told)
    {
        known.told = true;
        warn!(
            "the requests that wait for locks have half of the open files that this process may have (ulimit -n): \
             others ask again and again, and each can get its lock up to a second later"
        );
    }
}

/// Half of the limit of open files in /proc.
fn most(limits: &str) -> usize {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    let soft = line.and_then(|line| line.split_ascii_whitespace().next());
    let files = match soft {
        Some("unlimited") => usize::MAX,
        soft => soft.and_then(|soft| soft.parse().ok()).unwrap_or(USUAL),
    };
    (files / 2).clamp(1, Semaphore::MAX_PERMITS)
}

struct Known {
    process: u32,
    permits: Arc<Semaphore>,
    all: usize,
    told: bool,
}

static KNOWN: Mutex<Option<Known>> = Mutex::new(None);
const LIMITS: &str = "/proc/self/limits";
/// Limit of open files where /proc gives none.
const USUAL: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_open_files_may_wait() {
        let line = |soft| {
            format!("Max processes 7 7 processes\nMax open files            {soft} 4096 files\n")
        };
        assert_eq!(most(&line("256")), 128);
        assert_eq!(most(&line("1")), 1);
        assert_eq!(most(&line("unlimited")), Semaphore::MAX_PERMITS);
        assert_eq!(most(""), 512);
        assert_eq!(most(&fs::read_to_string(LIMITS).unwrap_or_default()).min(1), 1);
    }
}
