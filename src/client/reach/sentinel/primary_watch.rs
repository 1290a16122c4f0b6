//! Tells whether a connection still leads to the primary.

use tokio::sync::watch;

use super::opinion::Opinions;
use crate::reach::address::host::Host;

/// The server of a connection, and the Sentinels' opinions.
#[derive(Clone)]
pub(crate) struct PrimaryWatch {
    opinions: watch::Receiver<Opinions>,
    to: Host,
}

impl PrimaryWatch {
    pub(super) fn new(opinions: watch::Receiver<Opinions>, to: Host) -> PrimaryWatch {
        PrimaryWatch { opinions, to }
    }

    /// True if another server is the primary now.
    pub(crate) fn is_left(&self) -> bool {
        self.leads_elsewhere(&self.opinions.borrow())
    }

    /// Resolves when another server is the primary.
    pub(crate) async fn left(&self) {
        let mut opinions = self.opinions.clone();
        if opinions.wait_for(|opinions| self.leads_elsewhere(opinions)).await.is_err() {
            // The client is gone, and with it the tasks that ask the Sentinels.
            std::future::pending().await
        }
    }

    /// Explains the change for an error.
    pub(crate) fn why(&self) -> String {
        let opinions = self.opinions.borrow();
        let now = opinions.newest().map_or("another".to_owned(), Host::to_string);
        format!("{} is not the primary any more; Sentinels ({}) say {now}", self.to, opinions.who())
    }

    fn leads_elsewhere(&self, opinions: &Opinions) -> bool {
        opinions.newest().is_some_and(|newest| *newest != self.to)
    }
}
