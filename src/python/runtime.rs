//! The thread in which everything runs: requests, renewals, releases. It never waits for the
//! interpreter, so leases are renewed whatever that does.

use std::any::Any;
use std::future::{Future, pending};
use std::io;
use std::mem;
use std::os::fd::RawFd;
use std::panic::AssertUnwindSafe;
use std::process;
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use futures_util::FutureExt;
use nix::sys::signal::SigSet;
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use tokio::runtime::{Builder, Handle};
use tokio::task::AbortHandle;

use crate::fork;

/// The runtime of this process.
pub(crate) struct Runtime {
    pub(crate) handle: Handle,
    /// The process that started it. A child of it has the memory, and not the thread.
    pub(crate) process: u32,
    /// Its epoll instance, which knows its sockets.
    pub(crate) epoll: Option<RawFd>,
}

/// Locked only by who is attached to the interpreter, and never while detached: so nobody holds it
/// while another thread forks.
static CURRENT: Mutex<Option<Arc<Runtime>>> = Mutex::new(None);

/// The runtime of this process. It is started if there is none.
pub(crate) fn current(_: Python<'_>) -> PyResult<Arc<Runtime>> {
    let mut current = lock();
    if let Some(runtime) = current.as_ref().filter(|runtime| runtime.process == process::id()) {
        return Ok(Arc::clone(runtime));
    }
    current.iter().for_each(|runtime| fork::close_sockets_of_parent(runtime));
    let runtime = Arc::new(Runtime::start().map_err(PyOSError::new_err)?);
    // That of a parent is leaked: its thread is not here.
    mem::forget(current.replace(Arc::clone(&runtime)));
    Ok(runtime)
}

/// The last runtime, if one was started in this process or a parent of it.
pub(crate) fn last(_: Python<'_>) -> Option<Arc<Runtime>> {
    lock().as_ref().map(Arc::clone)
}

fn lock() -> MutexGuard<'static, Option<Arc<Runtime>>> {
    CURRENT.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Runtime {
    fn start() -> io::Result<Runtime> {
        let (started, heard) = mpsc::sync_channel(1);
        thread::Builder::new().name("dlock".to_owned()).spawn(move || {
            // Signals are for the threads of Python.
            let _ = SigSet::all().thread_block();
            let runtime = match Builder::new_current_thread().enable_all().build() {
                Ok(runtime) => runtime,
                Err(error) => return drop(started.send(Err(error))),
            };
            let epoll = runtime.block_on(async { fork::epoll_of_this_runtime() });
            let _ = started.send(Ok((runtime.handle().clone(), epoll)));
            runtime.block_on(pending::<()>());
        })?;
        let (handle, epoll) = heard.recv().map_err(io::Error::other)??;
        Ok(Runtime { handle, process: process::id(), epoll })
    }

    /// Runs this in the thread of the runtime. If it panics, `done` gets the words of the panic.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
        done: impl FnOnce(Result<T, String>) + Send + 'static,
    ) -> AbortHandle {
        let work = AssertUnwindSafe(work).catch_unwind();
        let task = async move { done(work.await.map_err(|panic| words(&*panic))) };
        self.handle.spawn(task).abort_handle()
    }

    /// Stops the thread between two steps of its work, until what is returned is dropped. So nothing is
    /// half done when this process forks.
    pub(crate) fn pause(&self) -> Sender<()> {
        let (paused, heard) = mpsc::sync_channel(1);
        let (resume, resumed) = mpsc::channel();
        self.handle.spawn(async move {
            let _ = paused.send(());
            let _ = resumed.recv();
        });
        let _ = heard.recv_timeout(LONGEST_STEP);
        resume
    }
}

fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic".to_owned())
}

/// A step of the work is far shorter, but the machine may be busy.
const LONGEST_STEP: Duration = Duration::from_secs(5);
