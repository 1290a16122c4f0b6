//! One look at the nodes a second, for all requests together.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Mutex;

use crate::watch::{Look, Watch};

/// The last look, behind a lock for the next.
pub struct SharedLook(Mutex<Inner>);

struct Inner {
    watch: Watch,
    last: Option<(Instant, Arc<Look>)>,
}

impl SharedLook {
    pub fn new(watch: Watch) -> SharedLook {
        SharedLook(Mutex::new(Inner { watch, last: None }))
    }

    /// Returns the last look if it is recent, or a new one. Requests that arrive meanwhile wait for it.
    pub async fn look(&self) -> Arc<Look> {
        let mut inner = self.0.lock().await;
        if let Some((at, look)) = &inner.last
            && at.elapsed() < PAUSE
        {
            return Arc::clone(look);
        }
        let look = Arc::new(inner.watch.look().await);
        // At its end: a look at a node that hangs takes as long as `PAUSE`, and others wait for it.
        inner.last = Some((Instant::now(), Arc::clone(&look)));
        look
    }
}

/// Time until a look is too old.
const PAUSE: Duration = Duration::from_secs(1);
