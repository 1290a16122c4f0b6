//! The end of a part: after its time, or when the user ends it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::watch;

/// The time that one part has. Clones are of the same.
#[derive(Clone)]
pub struct TimeBox {
    end: Instant,
    stop: watch::Receiver<bool>,
    done: Arc<AtomicU64>,
}

impl TimeBox {
    /// Starts the time now.
    pub fn of(time: Duration, stop: watch::Receiver<bool>, done: Arc<AtomicU64>) -> TimeBox {
        TimeBox { end: Instant::now() + time, stop, done }
    }

    /// True if no new round shall begin.
    pub fn is_over(&self) -> bool {
        self.is_stopped() || Instant::now() >= self.end
    }

    /// True if somebody wants it to end.
    pub fn is_stopped(&self) -> bool {
        *self.stop.borrow()
    }

    /// Resolves when somebody wants it to end.
    pub async fn stopped(&self) {
        stopped(self.stop.clone()).await;
    }

    /// The end of its time.
    pub fn end(&self) -> Instant {
        self.end
    }

    /// A round is done: whoever waits sees it.
    pub fn count(&self) {
        self.done.fetch_add(1, Ordering::Relaxed);
    }

    /// So many are done.
    pub fn counted(&self, done: u64) {
        self.done.store(done, Ordering::Relaxed);
    }
}

/// Resolves when somebody wants it to end.
pub async fn stopped(mut stop: watch::Receiver<bool>) {
    if stop.wait_for(|stop| *stop).await.is_err() {
        // Nobody can want it any more.
        std::future::pending().await
    }
}
