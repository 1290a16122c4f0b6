//! The tie between a connection and its EPHEMERAL locks.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::watch;

/// Tells locks that their connection has ended, and tells the connection to end.
pub struct Tie {
    state: watch::Sender<State>,
    /// Number of locks that end with the connection.
    locks: AtomicUsize,
}

/// A lock that ends with a connection, until it is dropped.
pub struct Bond(pub Arc<Tie>);

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    /// The connection has to end, for example because a lock with CLOSE was lost.
    Lost,
    Ended,
}

impl Tie {
    pub fn new() -> Tie {
        Tie { state: watch::Sender::new(State::Open), locks: AtomicUsize::new(0) }
    }

    /// Ends the locks.
    pub fn end(&self) {
        self.state.send_replace(State::Ended);
    }

    /// Tells the connection to end. One that has ended stays so, for locks that have not noticed it yet.
    pub fn lose(&self) {
        self.state.send_if_modified(|state| {
            let is_open = *state == State::Open;
            if is_open {
                *state = State::Lost;
            }
            is_open
        });
    }

    /// Resolves when the connection has ended.
    pub async fn ended(&self) {
        // The sender is a part of this.
        let _ = self.state.subscribe().wait_for(|state| *state == State::Ended).await;
    }

    /// Resolves when the connection has to end.
    pub async fn lost(&self) {
        let _ = self.state.subscribe().wait_for(|state| *state == State::Lost).await;
    }

    /// True if a lock ends with the connection.
    pub fn has_locks(&self) -> bool {
        self.locks.load(Ordering::Relaxed) > 0
    }
}

impl Bond {
    pub fn of(tie: Arc<Tie>) -> Bond {
        tie.locks.fetch_add(1, Ordering::Relaxed);
        Bond(tie)
    }
}

impl Drop for Bond {
    fn drop(&mut self) {
        self.0.locks.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{Duration, timeout};

    use super::*;

    #[tokio::test]
    async fn a_loss_after_the_end_hides_the_end_from_no_lock() {
        let tie = Tie::new();
        tie.end();
        tie.lose();
        assert!(timeout(Duration::from_secs(60), tie.ended()).await.is_ok());
    }
}
