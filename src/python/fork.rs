//! Fork: a child process gets a copy of the memory and of the open sockets, without the threads that serve
//! them.
//!
//! The child must not use or drop the parent's objects ([`Own`](crate::own::Own)): each request, and each end
//! of a connection, would appear as the parent's.

use std::mem;
use std::process;
use std::sync::mpsc::Sender;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;

use crate::runtime;

/// Forks that are about to happen: several threads may fork at the same time, unless other hooks prevent it.
struct Forks {
    under_way: usize,
    /// A pause of the runtime. Dropping this lets the runtime go on.
    pause: Option<Sender<()>>,
}

/// Only threads attached to the interpreter lock it, and never while detached.
static FORKS: Mutex<Forks> = Mutex::new(Forks { under_way: 0, pause: None });

/// Runs before this process forks. The runtime stops between two steps.
#[pyfunction]
pub(crate) fn before(py: Python<'_>) {
    let mut forks = forks();
    forks.under_way += 1;
    if forks.pause.is_none() {
        let runtime = runtime::last(py).filter(|runtime| runtime.process == process::id());
        forks.pause = runtime.map(|runtime| runtime.pause());
    }
}

/// Runs after a fork, in the parent.
#[pyfunction]
pub(crate) fn after_in_parent() {
    let mut forks = forks();
    forks.under_way = forks.under_way.saturating_sub(1);
    if forks.under_way == 0 {
        forks.pause = None;
    }
}

/// Runs after a fork, in the child. The runtime is not in this process: nothing resumes here.
#[pyfunction]
pub(crate) fn after_in_child() {
    let mut forks = forks();
    forks.under_way = 0;
    mem::forget(forks.pause.take());
}

fn forks() -> MutexGuard<'static, Forks> {
    FORKS.lock().unwrap_or_else(PoisonError::into_inner)
}
