//! The thread in which everything runs: requests, renewals, releases. It never waits for an event loop,
//! so leases are renewed whatever those do. Worker threads share it.

use std::any::Any;
use std::future::{Future, pending};
use std::io;
use std::panic::AssertUnwindSafe;
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;

use futures_util::FutureExt;
use tokio::runtime::{Builder, Handle};
use tokio::task::AbortHandle;

static CURRENT: Mutex<Option<Handle>> = Mutex::new(None);

/// The runtime of this process. It is started if there is none.
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
    let (started, heard) = mpsc::sync_channel(1);
    thread::Builder::new().name("dlock".to_owned()).spawn(move || {
        let runtime = match Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => return drop(started.send(Err(error))),
        };
        let _ = started.send(Ok(runtime.handle().clone()));
        runtime.block_on(pending::<()>());
    })?;
    heard.recv().map_err(io::Error::other)?
}

/// Runs this in that thread. If it panics, `done` gets the words of the panic.
pub(crate) fn run<T: Send + 'static>(
    runtime: &Handle,
    work: impl Future<Output = T> + Send + 'static,
    done: impl FnOnce(Result<T, String>) + Send + 'static,
) -> AbortHandle {
    let work = AssertUnwindSafe(work).catch_unwind();
    let task = async move { done(work.await.map_err(|panic| words(&*panic))) };
    runtime.spawn(task).abort_handle()
}

fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic".to_owned())
}
