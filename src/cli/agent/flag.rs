//! A flag that is set once.

use tokio::sync::watch;

/// A flag to wait for.
#[derive(Default)]
pub struct Flag(watch::Sender<bool>);

impl Flag {
    pub fn set(&self) {
        self.0.send_replace(true);
    }

    pub fn is_set(&self) -> bool {
        *self.0.borrow()
    }

    /// Resolves when it is set.
    pub async fn wait(&self) {
        // The sender is a part of this.
        let _ = self.0.subscribe().wait_for(|is_set| *is_set).await;
    }
}
