//! The tie between a connection and its EPHEMERAL locks.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::watch;

/// Tells locks that their connection has ended, and the connection that it has to end.
pub struct Tie {
    state: watch::Sender<State>,
    /// Number of locks that end with the connection.
    locks: AtomicUsize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    /// A lock is lost whose caller wants the connection to be closed then.
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

    /// Ends the connection. One that has ended stays so, for locks that have not heard of it.
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
        // The sender lives as long as this.
        let _ = self.state.subscribe().wait_for(|state| *state == State::Ended).await;
    }

    /// Resolves when the connection has to end.
    pub async fn lost(&self) {
        let _ = self.state.subscribe().wait_for(|state| *state == State::Lost).await;
    }

    pub fn add_lock(&self) {
        self.locks.fetch_add(1, Ordering::Relaxed);
    }

    pub fn remove_lock(&self) {
        self.locks.fetch_sub(1, Ordering::Relaxed);
    }

    /// True if a lock ends with the connection.
    pub fn has_locks(&self) -> bool {
        self.locks.load(Ordering::Relaxed) > 0
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
