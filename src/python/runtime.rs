//! Where everything runs: requests, renewals, releases. It never waits for the interpreter, so leases are
//! renewed whatever that does.
//!
//! A thread of its own attends to it. A thread of Python that waits for an outcome takes its place meanwhile:
//! two threads would have to wake each other for each request, which takes longer than the request.

use std::future::Future;
use std::io;
use std::mem;
use std::os::fd::RawFd;
use std::process;
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use nix::sys::signal::SigSet;
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use tokio::runtime::{self, Builder, Handle};
use tokio::sync::Notify;

use crate::sockets::{self, Watched};

/// The runtime of this process.
pub(crate) struct Runtime {
    pub(crate) handle: Handle,
    /// The process that started it. A child of it has the memory, and not the thread.
    pub(crate) process: u32,
    /// Its epoll instance, which knows its sockets.
    epoll: Option<RawFd>,
    tokio: runtime::Runtime,
    turns: Mutex<Turns>,
    /// Nobody but its own thread is left to drive it.
    left: Condvar,
    /// Its own thread is asked to leave it to another.
    asked: Notify,
}

/// Who drives it.
struct Turns {
    /// Its own thread does.
    own: bool,
    /// So many threads of Python do, or want to.
    others: usize,
    /// How many ever did.
    begun: u64,
    /// Its own thread sleeps until the others have left.
    sleeps: bool,
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
    current.iter().for_each(|runtime| runtime.close_sockets_of_parent());
    let runtime = Runtime::start().map_err(PyOSError::new_err)?;
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
    fn start() -> io::Result<Arc<Runtime>> {
        let tokio =
            Builder::new_current_thread().enable_all().on_thread_start(no_signals).build()?;
        let epoll = tokio.block_on(async { sockets::epoll_of_this_runtime() });
        let (handle, process) = (tokio.handle().clone(), process::id());
        let turns = Mutex::new(Turns { own: true, others: 0, begun: 0, sleeps: false });
        let (left, asked) = (Condvar::new(), Notify::new());
        let runtime = Arc::new(Runtime { handle, process, epoll, tokio, turns, left, asked });
        let own = Arc::clone(&runtime);
        thread::Builder::new().name("dlock".to_owned()).spawn(move || {
            no_signals();
            own.attend();
        })?;
        Ok(runtime)
    }

    /// Waits for this in a thread that is not attached to the interpreter, and drives everything meanwhile. A
    /// thread with a small stack (`threading.stack_size`) leaves that to the other.
    pub(crate) fn drive<T>(&self, wait: impl Future<Output = T>) -> T {
        if stacker::remaining_stack().is_none_or(|room| room < LEAST_STACK) {
            return self.handle.block_on(wait);
        }
        let _turn = self.turn();
        self.tokio.block_on(wait)
    }

    /// What its own thread does: it drives while nobody else does.
    fn attend(&self) {
        loop {
            self.tokio.block_on(self.asked.notified());
            let mut turns = self.turns();
            turns.own = false;
            while !turns.own {
                while turns.others > 0 {
                    turns.sleeps = true;
                    turns = self.left.wait(turns).unwrap_or_else(PoisonError::into_inner);
                    turns.sleeps = false;
                }
                // Who has acquired a lock may release it soon.
                let begun = turns.begun;
                let waited = self.left.wait_timeout(turns, SOON);
                turns = waited.unwrap_or_else(PoisonError::into_inner).0;
                turns.own = turns.others == 0 && turns.begun == begun;
            }
        }
    }

    fn turn(&self) -> Turn<'_> {
        let mut turns = self.turns();
        turns.others += 1;
        turns.begun += 1;
        if turns.own {
            self.asked.notify_one();
        }
        Turn(self)
    }

    fn turns(&self) -> MutexGuard<'_, Turns> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What its epoll instance watches.
    pub(crate) fn watched(&self) -> Vec<Watched> {
        self.epoll.map(sockets::watched).unwrap_or_default()
    }

    /// For children of which Python was not told before. Some sockets may be missed.
    pub(crate) fn close_sockets_of_parent(&self) {
        if self.process != process::id() {
            sockets::close(self.watched());
        }
    }

    /// Stops whoever drives between two steps of the work, until what is returned is dropped. So nothing is
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

/// A thread of Python drives, until this is dropped.
struct Turn<'a>(&'a Runtime);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut turns = self.0.turns();
        turns.others -= 1;
        if turns.others == 0 && turns.sleeps {
            self.0.left.notify_one();
        }
    }
}

/// Signals are for the threads of Python.
fn no_signals() {
    let _ = SigSet::all().thread_block();
}

/// For so long nobody drives when a thread of Python has left, unless one comes back. That is nothing beside a
/// lease.
const SOON: Duration = Duration::from_millis(1);
/// Whatever runs needs a quarter of this. It is half of what a thread of the runtime usually has.
const LEAST_STACK: usize = 1 << 20;
/// A step of the work is far shorter, but the machine may be busy.
const LONGEST_STEP: Duration = Duration::from_secs(5);
