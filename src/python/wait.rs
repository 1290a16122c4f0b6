//! A thread of Python that waits for an outcome, without the GIL.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use nix::unistd::{getpid, gettid};
use pyo3::prelude::*;
use tokio::task::AbortHandle;

use crate::outcome::Outcome;

/// Starts work, and waits for its outcome. A signal whose handler raises, as that of Ctrl-C does, ends the
/// work and the wait.
pub(crate) fn wait(
    py: Python<'_>,
    start: impl FnOnce(Box<dyn FnOnce(Outcome) + Send>) -> AbortHandle,
) -> PyResult<Outcome> {
    let place = Arc::new(Place::default());
    let there = Arc::clone(&place);
    let task = start(Box::new(move |outcome| there.put(outcome)));
    let is_main = getpid() == gettid();
    loop {
        if let Some(outcome) = py.detach(|| place.take(is_main.then_some(BETWEEN_SIGNALS))) {
            return Ok(outcome);
        }
        if let Err(raised) = py.check_signals() {
            task.abort();
            return Err(raised);
        }
    }
}

/// Where the outcome is put. If nobody takes it, it is dropped; a guard in it is released by that.
#[derive(Default)]
struct Place {
    outcome: Mutex<Option<Outcome>>,
    is_there: Condvar,
}

impl Place {
    fn put(&self, outcome: Outcome) {
        *self.outcome.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
        self.is_there.notify_one();
    }

    /// Waits for it; `None` if it does not come within this time.
    fn take(&self, within: Option<Duration>) -> Option<Outcome> {
        let mut outcome = self.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        let missing = |outcome: &mut Option<Outcome>| outcome.is_none();
        let is_there = &self.is_there;
        outcome = match within {
            None => is_there.wait_while(outcome, missing).unwrap_or_else(PoisonError::into_inner),
            Some(within) => {
                let waited = is_there.wait_timeout_while(outcome, within, missing);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
        };
        outcome.take()
    }
}

/// Handlers of signals run in the main thread of Python, as soon as that looks for them.
const BETWEEN_SIGNALS: Duration = Duration::from_millis(50);
