//! A primary that Sentinels watch, and its present server.
//!
//! The client asks all Sentinels at once, over connections that stay open, and they announce a switch by
//! themselves. A majority of them decides, so one that has not received a fail-over leads no client back.
//! [`attend`]: the connection to one Sentinel. [`opinion`]: the Sentinels' opinions, and the decision.
//! [`primary_watch`]: tells whether a connection still leads to the primary.

mod attend;
mod opinion;
pub(crate) mod primary_watch;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

use super::address::Watched;
use super::address::host::Host;
use crate::report::NodeError;
pub(crate) use attend::ask_about;
use opinion::Opinions;

/// The Sentinels of a node.
pub(crate) struct Sentinels {
    watched: Arc<Watched>,
    opinions: Arc<watch::Sender<Opinions>>,
    /// Number of the present round of questions.
    round: Arc<watch::Sender<u64>>,
    attending: Mutex<Vec<JoinHandle<()>>>,
}

impl Sentinels {
    pub(crate) fn new(watched: Watched) -> Sentinels {
        let opinions = Opinions::new(&watched);
        Sentinels {
            watched: Arc::new(watched),
            opinions: Arc::new(watch::Sender::new(opinions)),
            round: Arc::new(watch::Sender::new(0)),
            attending: Mutex::default(),
        }
    }

    /// Asks which server the primary is.
    pub(crate) async fn primary(&self, within: Duration) -> Result<Host, NodeError> {
        self.attend();
        let end = Instant::now() + within;
        let mut round = 0;
        self.round.send_modify(|last| {
            *last += 1;
            round = *last;
        });
        let mut opinions = self.opinions.subscribe();
        // After a majority has answered, the client does not wait for the time-out of a silent
        // Sentinel.
        let settled = opinions.wait_for(|opinions| opinions.is_settled(round));
        let _ = timeout_at(end, settled).await;
        self.opinions.borrow().primary(round)
    }

    /// Follows the Sentinels' messages about the primary at this address.
    pub(crate) fn primary_watch(&self, to: Host) -> primary_watch::PrimaryWatch {
        primary_watch::PrimaryWatch::new(self.opinions.subscribe(), to)
    }

    /// The address of the primary and its Sentinels.
    pub(crate) fn watched(&self) -> &Watched {
        &self.watched
    }

    /// Starts a task for each Sentinel. The tasks end with this object, or with their runtime: then new ones
    /// start.
    fn attend(&self) {
        let mut attending = self.attending.lock().unwrap_or_else(PoisonError::into_inner);
        if attending.is_empty() || attending.iter().any(JoinHandle::is_finished) {
            attending.drain(..).for_each(|task| task.abort());
            for place in 0..self.watched.sentinels.len() {
                let (watched, opinions) = (Arc::clone(&self.watched), Arc::clone(&self.opinions));
                let task = attend::attend(place, watched, opinions, self.round.subscribe());
                attending.push(tokio::spawn(task));
            }
        }
    }
}

impl Drop for Sentinels {
    fn drop(&mut self) {
        let mut attending = self.attending.lock().unwrap_or_else(PoisonError::into_inner);
        attending.drain(..).for_each(|task| task.abort());
    }
}
