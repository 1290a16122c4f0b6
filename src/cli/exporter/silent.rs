//! Connections whose request has not arrived yet, in the order in which they came.
//!
//! Whoever only opens connections keeps no place from one who asks at once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::task::AbortHandle;

/// Those connections. There are no more than there are places.
#[derive(Default)]
pub struct SilentConnections(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    last: u64,
    /// By when they came. `None`: its task has not begun.
    waiting: BTreeMap<u64, Option<AbortHandle>>,
}

/// One of them, until its request has arrived or it is dropped.
pub struct SilentConnection {
    silent: Arc<SilentConnections>,
    /// Its number.
    pub at: u64,
}

impl SilentConnections {
    /// One more.
    pub fn add(self: Arc<SilentConnections>) -> SilentConnection {
        let mut inner = self.inner();
        inner.last += 1;
        let at = inner.last;
        inner.waiting.insert(at, None);
        drop(inner);
        SilentConnection { silent: self, at }
    }

    /// The task that serves it, unless that is over.
    pub fn set_task(&self, at: u64, task: AbortHandle) {
        if let Some(connection) = self.inner().waiting.get_mut(&at) {
            *connection = Some(task);
        }
    }

    /// Ends the connection that came first.
    pub fn close_oldest(&self) {
        if let Some((_, Some(task))) = self.inner().waiting.pop_first() {
            task.abort();
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SilentConnection {
    /// Its request has arrived.
    pub fn request_arrived(&self) {
        self.silent.inner().waiting.remove(&self.at);
    }
}

impl Drop for SilentConnection {
    fn drop(&mut self) {
        self.request_arrived();
    }
}
