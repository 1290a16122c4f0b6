//! Events for the threads of Python that call the program's functions, `dlock-hooks`, and log lines, `dlock-log`.
//!
//! Threads of Rust run no code of Python: they queue events for those threads, which end before the interpreter does.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};

use dlock_bindings::events::{self, Level, Line, Listener};
use dlock_bindings::value::Record;
use dlock_client::Notice;
use pyo3::prelude::*;

use crate::outcome::Outcome;
use crate::outcome_queue::{OutcomeQueue, Outcomes};
use crate::own::Own;

/// The queue of a thread.
type Queue = Mutex<Option<Own<Arc<Outcomes>>>>;

static HOOKS: Queue = Mutex::new(None);
static LINES: Queue = Mutex::new(None);

/// Sets the queue of the thread that calls functions in this process.
#[pyfunction]
pub(crate) fn serve(queue: &OutcomeQueue) -> PyResult<()> {
    set(&HOOKS, queue)
}

/// Sets the queue of the thread that logs lines in this process.
#[pyfunction]
pub(crate) fn serve_lines(queue: &OutcomeQueue) -> PyResult<()> {
    set(&LINES, queue)
}

fn set(to: &Queue, queue: &OutcomeQueue) -> PyResult<()> {
    let serving = Own::new(queue.outcomes()?);
    // The last queue is dropped while the mutex is not locked.
    let _last = lock(to).replace(serving);
    Ok(())
}

/// Queues lines of this level of `logging` and above.
#[pyfunction]
pub(crate) fn set_level(level: u32) {
    LEVEL.store(level, Ordering::Relaxed);
    LISTENS.call_once(|| events::listen(Log));
}

/// Queues a warning for the log.
pub(crate) fn warn(message: String) {
    if let Some(queue) = queue(&LINES) {
        queue.push_within(MOST_EVENTS, LINE, Outcome::Line(number(Level::WARN), message));
    }
}

/// Sends a client's notices, with this id, to the thread. Dropping it sends the end of notices.
pub(crate) struct Notices(pub(crate) u64);

impl Notices {
    /// Queues a notice. Notices beyond the limit are lost.
    pub(crate) fn send(&self, notice: &Notice) {
        if let Some(queue) = queue(&HOOKS) {
            queue.push_within(MOST_EVENTS, self.0, Outcome::Value(Record::from(notice).into()));
        }
    }
}

impl Drop for Notices {
    fn drop(&mut self) {
        if let Some(queue) = queue(&HOOKS) {
            queue.push(self.0, ().into());
        }
    }
}

fn queue(of: &Queue) -> Option<Arc<Outcomes>> {
    lock(of).as_ref().and_then(Own::get).map(Arc::clone)
}

fn lock(queue: &Queue) -> MutexGuard<'_, Option<Own<Arc<Outcomes>>>> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A listener for log lines.
struct Log;

impl Listener for Log {
    fn wants(&self, level: Level) -> bool {
        number(level) >= LEVEL.load(Ordering::Relaxed)
    }

    fn line(&self, line: Line) {
        // This must not block: a line is lost while the mutex is locked.
        if let Ok(queue) = LINES.try_lock()
            && let Some(queue) = queue.as_ref().and_then(Own::get)
        {
            let line = Outcome::Line(number(line.level), line.to_string());
            queue.push_within(MOST_EVENTS, LINE, line);
        }
    }
}

/// The number of a level for `logging`, which has no TRACE: below DEBUG.
fn number(level: Level) -> u32 {
    match level {
        Level::ERROR => 40,
        Level::WARN => 30,
        Level::INFO => 20,
        Level::DEBUG => 10,
        Level::TRACE => 5,
    }
}

static LEVEL: AtomicU32 = AtomicU32::new(30);
static LISTENS: Once = Once::new();
/// The id of log lines.
const LINE: u64 = 0;
/// Limit of events in a queue, beyond which lines or notices are lost.
const MOST_EVENTS: usize = 1024;
