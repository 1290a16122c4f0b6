//! An outage, as one acquisition sees it: somebody waits for the lock, and no majority of the nodes answers.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dlock_client::Notice;

use super::figures::Counted;
use super::refusal::{NO_QUORUM, listed};
use super::reply::Reply;

/// The present outage, if there is one. The acquisition owns it, so that it ends with the acquisition.
pub struct Outage {
    /// The error for those who ask.
    now: Mutex<Option<(String, Counted)>>,
    /// Number of all outages.
    count: Arc<AtomicU64>,
}

impl Outage {
    pub fn new(count: &Arc<AtomicU64>) -> Arc<Outage> {
        Arc::new(Outage { now: Mutex::default(), count: Arc::clone(count) })
    }

    /// Hears the library's notices.
    pub fn hear(&self, notice: &Notice) {
        match notice {
            Notice::Outage { needed, nodes, .. } => {
                let (count, nodes) = (nodes.len(), listed(nodes));
                let text = format!("{NO_QUORUM} {needed} of {count} nodes are needed: {nodes}");
                *self.now() = Some((text, Counted::new(&self.count)));
            }
            Notice::Back { .. } => *self.now() = None,
            _ => {}
        }
    }

    /// The reply to whoever asks meanwhile: the error, or null if a majority answers.
    pub fn reply(&self) -> Reply {
        self.now().as_ref().map_or(Reply::Null, |(text, _)| Reply::Error(text.clone()))
    }

    fn now(&self) -> MutexGuard<'_, Option<(String, Counted)>> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
