//! Background tasks of a client: releases that no caller waits for.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::timeout;

/// A count of a client's background tasks, so that a caller can wait for their end. Each task has a time
/// limit, and all end with the runtime.
pub(crate) struct Background {
    running: Arc<watch::Sender<usize>>,
    /// Runtime of the client's creation: for guards that are dropped outside of any runtime.
    home: Handle,
}

/// Counts as a task as long as it exists.
pub(crate) struct Busy(Arc<watch::Sender<usize>>);

impl Background {
    pub(crate) fn new() -> Background {
        Background { running: Arc::new(watch::Sender::new(0)), home: Handle::current() }
    }

    pub(crate) fn busy(&self) -> Busy {
        self.running.send_modify(|running| *running += 1);
        Busy(Arc::clone(&self.running))
    }

    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let busy = self.busy();
        let runtime = Handle::try_current();
        runtime.as_ref().unwrap_or(&self.home).spawn(async move {
            work.await;
            drop(busy);
        });
    }

    /// Waits until no task runs. Returns false if that takes longer than `within`.
    pub(crate) async fn idle(&self, within: Duration) -> bool {
        let mut running = self.running.subscribe();
        timeout(within, running.wait_for(|running| *running == 0)).await.is_ok()
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.send_modify(|running| *running -= 1);
    }
}
