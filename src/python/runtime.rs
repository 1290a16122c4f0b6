//! The runtime: requests, renewals, releases. It never waits for the interpreter, so leases are renewed even
//! while Python is blocked.
//!
//! A thread of its own drives it. A Python thread that waits for an outcome takes over meanwhile: two threads
//! would have to wake each other for each request, which takes longer than the request.

use std::future::Future;
use std::io;
use std::mem;
use std::process;
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use dlock_client::operator;
use nix::sys::signal::SigSet;
use nix::unistd::{getpid, gettid};
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use tokio::runtime::{self, Builder, Handle};
use tokio::sync::Notify;

/// The runtime of this process.
pub(crate) struct Runtime {
    pub(crate) handle: Handle,
    /// The process that started it. A child process has the memory, but not the thread.
    pub(crate) process: u32,
    tokio: runtime::Runtime,
    turns: Mutex<Turns>,
    /// Notified when the last Python thread has stopped driving it.
    left: Condvar,
    /// Notified when its own thread should hand over.
    asked: Notify,
}

/// The threads that drive the runtime.
struct Turns {
    /// True while its own thread drives.
    own: bool,
    /// Number of Python threads that drive, or want to.
    others: usize,
    /// Number of Python threads that have ever driven.
    begun: u64,
    /// True while its own thread sleeps until the others have left.
    sleeps: bool,
}

/// Only threads attached to the interpreter lock it, and never while detached: so it is never locked while
/// another thread forks.
static CURRENT: Mutex<Option<Arc<Runtime>>> = Mutex::new(None);

/// Returns the runtime of this process, and starts it if there is none.
pub(crate) fn current(_: Python<'_>) -> PyResult<Arc<Runtime>> {
    let mut current = lock();
    if let Some(runtime) = current.as_ref().filter(|runtime| runtime.process == process::id()) {
        return Ok(Arc::clone(runtime));
    }
    let runtime = Runtime::start().map_err(PyOSError::new_err)?;
    // A parent's runtime is leaked: its thread is not in this process.
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
        let (handle, process) = (tokio.handle().clone(), process::id());
        let turns = Mutex::new(Turns { own: true, others: 0, begun: 0, sleeps: false });
        let (left, asked) = (Condvar::new(), Notify::new());
        let runtime = Arc::new(Runtime { handle, process, tokio, turns, left, asked });
        let own = Arc::clone(&runtime);
        thread::Builder::new().name("dlock".to_owned()).spawn(move || {
            no_signals();
            own.attend();
        })?;
        Ok(runtime)
    }

    /// Waits for this in a thread that is not attached to the interpreter, and drives the runtime meanwhile.
    /// For a thread with a small stack (`threading.stack_size`) the runtime's own thread drives.
    pub(crate) fn drive<T>(&self, wait: impl Future<Output = T>) -> T {
        if stacker::remaining_stack().is_none_or(|room| room < LEAST_STACK) {
            return self.handle.block_on(wait);
        }
        let _turn = self.turn();
        self.tokio.block_on(wait)
    }

    /// The loop of its own thread: it drives while no other thread does.
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
                // A thread that has acquired a lock may release it soon.
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

    /// Stops the runtime between two steps, until the returned sender is dropped, for a while at most: a fork must
    /// not copy a half-done step, nor a lock of the C library that a lookup of a name holds.
    pub(crate) fn pause(&self) -> Sender<()> {
        let begun = Instant::now();
        loop {
            let resume = self.stop();
            if operator::lookups() == 0 || begun.elapsed() >= LONGEST_LOOKUP {
                return resume;
            }
            // Locks are renewed meanwhile.
            drop(resume);
            thread::sleep(SOON);
        }
    }

    fn stop(&self) -> Sender<()> {
        let (paused, has_paused) = mpsc::sync_channel(1);
        let (resume, resumed) = mpsc::channel();
        self.handle.spawn(async move {
            let _ = paused.send(());
            // The program's own hooks may use dlock, or wait for a thread that does so.
            let _ = resumed.recv_timeout(LONGEST_STEP);
        });
        let _ = has_paused.recv_timeout(LONGEST_STEP);
        resume
    }
}

/// A Python thread drives the runtime until this is dropped.
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

/// True if this is the first thread of its process.
pub(crate) fn is_main_thread() -> bool {
    getpid() == gettid()
}

/// Blocks all signals: they are for the threads of Python.
fn no_signals() {
    let _ = SigSet::all().thread_block();
}

/// Time without a driver after a Python thread has left, in case one comes back. It is short compared to any
/// lease.
const SOON: Duration = Duration::from_millis(1);
/// Stack that driving may need; real work needs a quarter. It is half of the stack that a thread of the
/// runtime usually has.
const LEAST_STACK: usize = 1 << 20;
/// Limit of the wait for lookups. A lookup that takes longer waits for the network, and holds no lock.
const LONGEST_LOOKUP: Duration = Duration::from_millis(100);
/// Limit of the wait for one step, and of a pause. Both are far shorter, but the machine may be busy.
const LONGEST_STEP: Duration = Duration::from_secs(5);
