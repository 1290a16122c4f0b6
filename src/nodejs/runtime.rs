//! The runtime, in a thread of its own: requests, renewals, releases. It never waits for an event loop, so
//! leases are renewed while a loop is blocked. Worker threads share it.

use std::future::pending;
use std::io;
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;

use tokio::runtime::{Builder, Handle};

static CURRENT: Mutex<Option<Handle>> = Mutex::new(None);

/// Returns the runtime of this process, and starts it if there is none.
pub(crate) fn current() -> napi::Result<Handle> {
    let mut current = CURRENT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(handle) = &*current {
        return Ok(handle.clone());
    }
    let failed = |error| napi::Error::from_reason(format!("the thread of dlock: {error}"));
    let handle = start().map_err(failed)?;
    Ok(current.insert(handle).clone())
}

fn start() -> io::Result<Handle> {
    let (started, outcome) = mpsc::sync_channel(1);
    thread::Builder::new().name("dlock".to_owned()).spawn(move || {
        let runtime = match Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => return drop(started.send(Err(error))),
        };
        let _ = started.send(Ok(runtime.handle().clone()));
        runtime.block_on(pending::<()>());
    })?;
    outcome.recv().map_err(io::Error::other)?
}
