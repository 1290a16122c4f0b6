//! Connections whose request has not arrived yet, in the order in which they came.
//!
//! Whoever only opens connections keeps no place from one who asks at once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::task::AbortHandle;

/// Those connections. There are no more than there are places.
#[derive(Default)]
pub struct Lobby(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    last: u64,
    /// By when they came. `None`: its task has not begun.
    waiting: BTreeMap<u64, Option<AbortHandle>>,
}

/// One of them, until its request has arrived or it is dropped.
pub struct Guest {
    lobby: Arc<Lobby>,
    /// Its number.
    pub at: u64,
}

impl Lobby {
    /// One more.
    pub fn enter(self: Arc<Lobby>) -> Guest {
        let mut inner = self.inner();
        inner.last += 1;
        let at = inner.last;
        inner.waiting.insert(at, None);
        drop(inner);
        Guest { lobby: self, at }
    }

    /// The task that serves it, unless that is over.
    pub fn seat(&self, at: u64, task: AbortHandle) {
        if let Some(guest) = self.inner().waiting.get_mut(&at) {
            *guest = Some(task);
        }
    }

    /// Ends the connection that came first.
    pub fn send_away_first(&self) {
        if let Some((_, Some(task))) = self.inner().waiting.pop_first() {
            task.abort();
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Guest {
    /// Its request has arrived.
    pub fn has_asked(&self) {
        self.lobby.inner().waiting.remove(&self.at);
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.has_asked();
    }
}
