//! Background tasks of a client: releases that no caller waits for.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::timeout;

/// A count of a client's background tasks, so that a caller can wait for their end. Each task has a time
/// limit, and all end with the runtime.
pub(crate) struct Background {
    running: Arc<Running>,
    /// Runtime of the client's creation: for guards that are dropped outside of any runtime.
    home: Handle,
}

#[derive(Default)]
struct Running {
    tasks: AtomicUsize,
    idle: Notify,
}

/// Counts as a task as long as it exists.
pub(crate) struct Busy(Arc<Running>);

impl Background {
    pub(crate) fn new() -> Background {
        Background { running: Arc::default(), home: Handle::current() }
    }

    pub(crate) fn busy(&self) -> Busy {
        self.running.tasks.fetch_add(1, Ordering::AcqRel);
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
        let running = &self.running;
        let idle = async {
            loop {
                let idle = running.idle.notified();
                if running.tasks.load(Ordering::Acquire) == 0 {
                    return;
                }
                idle.await;
            }
        };
        timeout(within, idle).await.is_ok()
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        if self.0.tasks.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.idle.notify_waiters();
        }
    }
}
