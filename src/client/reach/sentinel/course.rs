//! Tells whether a connection still leads to the primary.

use tokio::sync::watch;

use super::opinion::Board;
use crate::reach::address::host::Host;

/// The server of a connection, and the Sentinels' opinions.
#[derive(Clone)]
pub(crate) struct Course {
    board: watch::Receiver<Board>,
    to: Host,
}

impl Course {
    pub(super) fn new(board: watch::Receiver<Board>, to: Host) -> Course {
        Course { board, to }
    }

    /// True if the primary is another one now.
    pub(crate) fn is_left(&self) -> bool {
        self.leads_elsewhere(&self.board.borrow())
    }

    /// Resolves when the primary is another one.
    pub(crate) async fn left(&self) {
        let mut board = self.board.clone();
        if board.wait_for(|board| self.leads_elsewhere(board)).await.is_err() {
            // The client is gone, and with it the tasks that ask the Sentinels.
            std::future::pending().await
        }
    }

    /// Explains that for an error.
    pub(crate) fn why(&self) -> String {
        let board = self.board.borrow();
        let now = board.best().map_or("another".to_owned(), Host::to_string);
        format!("{} is not the primary any more; Sentinels ({}) say {now}", self.to, board.who())
    }

    fn leads_elsewhere(&self, board: &Board) -> bool {
        board.best().is_some_and(|best| *best != self.to)
    }
}
