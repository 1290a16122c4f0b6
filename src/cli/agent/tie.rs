//! The tie between a connection and its EPHEMERAL locks.

use std::sync::Arc;

use tokio::sync::watch;

/// Tells locks that their connection has ended, and tells the connection to end.
pub struct Tie(watch::Sender<State>);

/// The tie of a lock that ends with a connection.
pub struct Bond {
    pub tie: Arc<Tie>,
    /// True if the connection ends when the lock is lost.
    pub close: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    /// The connection has to end, for example because a lock with CLOSE was lost.
    Lost,
    Ended,
}

impl Tie {
    pub fn new() -> Tie {
        Tie(watch::Sender::new(State::Open))
    }

    /// Ends the locks.
    pub fn end(&self) {
        self.0.send_replace(State::Ended);
    }

    /// Tells the connection to end. One that has ended stays so, for locks that have not noticed it yet.
    pub fn lose(&self) {
        self.0.send_if_modified(|state| {
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
        let _ = self.0.subscribe().wait_for(|state| *state == State::Ended).await;
    }

    /// Resolves when the connection has to end.
    pub async fn lost(&self) {
        let _ = self.0.subscribe().wait_for(|state| *state == State::Lost).await;
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
