//! Fork: a child gets a copy of the memory and of the open sockets, and no thread that serves them.
//!
//! In the child nothing of the parent's is used or dropped ([`Own`](crate::own::Own)), for each request and each
//! end of a connection would be the parent's. Its sockets are closed at once.

use std::mem;
use std::process;
use std::sync::mpsc::Sender;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;

use crate::runtime;
use crate::sockets::{self, Watched};

/// Forks that are about to happen: threads may fork at the same time, for other hooks may let them.
struct Forks {
    under_way: usize,
    pause: Option<Pause>,
}

/// The runtime stands still.
struct Pause {
    /// Dropping this lets the runtime go on.
    resume: Sender<()>,
    /// What the runtime's epoll instance watches. Parent and child share that: afterwards it may be too
    /// late to ask, for the parent goes on.
    watched: Vec<Watched>,
}

/// Locked only by who is attached to the interpreter, and never while detached.
static FORKS: Mutex<Forks> = Mutex::new(Forks { under_way: 0, pause: None });

/// Before this process forks: the runtime stops between two steps, so that its epoll instance knows all
/// of its sockets.
#[pyfunction]
pub(crate) fn before(py: Python<'_>) {
    let mut forks = forks();
    forks.under_way += 1;
    if forks.pause.is_none() {
        let runtime = runtime::last(py).filter(|runtime| runtime.process == process::id());
        forks.pause = runtime.map(|runtime| {
            let resume = runtime.pause();
            Pause { resume, watched: runtime.watched() }
        });
    }
}

/// After a fork, in the parent.
#[pyfunction]
pub(crate) fn after_in_parent() {
    let mut forks = forks();
    forks.under_way = forks.under_way.saturating_sub(1);
    if forks.under_way == 0 {
        forks.pause = None;
    }
}

/// After a fork, in the child.
#[pyfunction]
pub(crate) fn after_in_child(py: Python<'_>) {
    let mut forks = forks();
    forks.under_way = 0;
    match forks.pause.take() {
        Some(Pause { resume, watched }) => {
            sockets::close(watched);
            // The runtime is not in this process, so nothing goes on here.
            mem::forget(resume);
        }
        None => runtime::last(py).iter().for_each(|runtime| runtime.close_sockets_of_parent()),
    }
}

fn forks() -> MutexGuard<'static, Forks> {
    FORKS.lock().unwrap_or_else(PoisonError::into_inner)
}
