//! A primary that Sentinels watch: which server it is now.
//!
//! All Sentinels are asked at once, over connections that stay open, and tell of a switch by
//! themselves. The answer with the highest configuration epoch counts, as it does among Sentinels: so
//! one that has not heard of a fail-over leads nobody back. [`attend`]: one of them.
//! [`opinion`]: what they say, and what follows. [`course`]: whether a connection still leads there.

mod attend;
pub(crate) mod course;
mod opinion;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

use super::address::Watched;
use super::address::host::Host;
use crate::report::NodeError;
pub(crate) use attend::{ask_about, watched_by};
use opinion::Board;

/// The Sentinels of a node.
pub(crate) struct Sentinels {
    watched: Arc<Watched>,
    board: Arc<watch::Sender<Board>>,
    /// Counts how often they were to be asked.
    round: Arc<watch::Sender<u64>>,
    attending: Mutex<Vec<JoinHandle<()>>>,
}

impl Sentinels {
    pub(crate) fn new(watched: Watched) -> Sentinels {
        let board = Board::new(&watched);
        Sentinels {
            watched: Arc::new(watched),
            board: Arc::new(watch::Sender::new(board)),
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
        let mut board = self.board.subscribe();
        // One that does not answer must not cost its time-out, nor one answer decide against many.
        let said = |board: &Board| board.answers(round) > 0 || board.have_all_spoken(round);
        let some = timeout_at(end, board.wait_for(said)).await.is_ok();
        if some {
            let enough = board.wait_for(|board| board.is_settled(round));
            let _ = timeout_at(end.min(Instant::now() + GRACE), enough).await;
        }
        self.board.borrow().primary(round)
    }

    /// Where the primary is, as far as Sentinels have said without being asked.
    pub(crate) fn course(&self, to: Host) -> course::Course {
        course::Course::new(self.board.subscribe(), to)
    }

    /// Where the primary is found that Sentinels speak of.
    pub(crate) fn watched(&self) -> &Watched {
        &self.watched
    }

    /// A task for each Sentinel, which ends with this, or with the runtime: then there is another.
    fn attend(&self) {
        let mut attending = self.attending.lock().unwrap_or_else(PoisonError::into_inner);
        if attending.is_empty() || attending.iter().any(JoinHandle::is_finished) {
            attending.drain(..).for_each(|task| task.abort());
            for place in 0..self.watched.sentinels.len() {
                let (watched, board) = (Arc::clone(&self.watched), Arc::clone(&self.board));
                let task = attend::attend(place, watched, board, self.round.subscribe());
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

/// Once one has answered, how long to wait for a majority.
const GRACE: Duration = Duration::from_millis(150);
