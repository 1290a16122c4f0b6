//! Fork: a child gets a copy of the memory and of the open sockets, and no thread that serves them.
//!
//! In the child nothing of the parent's is used or dropped ([`Own`](crate::own::Own)), for each request and each
//! end of a connection would be the parent's. Its sockets are closed at once.

use std::mem;
use std::process;
use std::sync::mpsc::Sender;
use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;

use crate::runtime;
use crate::sockets::{self, Watched};

/// A fork that is about to happen.
struct Fork {
    /// Dropping this lets the runtime go on.
    _resume: Sender<()>,
    /// What the runtime's epoll instance watches. Parent and child share that: afterwards it may be too
    /// late to ask, for the parent goes on.
    watched: Vec<Watched>,
}

static FORK: Mutex<Option<Fork>> = Mutex::new(None);

/// Before this process forks: the runtime stops between two steps, so that its epoll instance knows all
/// of its sockets.
#[pyfunction]
pub(crate) fn before(py: Python<'_>) {
    let runtime = runtime::last(py).filter(|runtime| runtime.process == process::id());
    set_fork(runtime.map(|runtime| {
        let _resume = runtime.pause();
        Fork { _resume, watched: runtime.watched() }
    }));
}

/// After a fork, in the parent.
#[pyfunction]
pub(crate) fn after_in_parent() {
    drop(set_fork(None));
}

/// After a fork, in the child.
#[pyfunction]
pub(crate) fn after_in_child(py: Python<'_>) {
    match set_fork(None) {
        Some(mut fork) => {
            sockets::close(mem::take(&mut fork.watched));
            // The runtime is not in this process, so nothing goes on here.
            mem::forget(fork);
        }
        None => runtime::last(py).iter().for_each(|runtime| runtime.close_sockets_of_parent()),
    }
}

fn set_fork(fork: Option<Fork>) -> Option<Fork> {
    mem::replace(&mut FORK.lock().unwrap_or_else(PoisonError::into_inner), fork)
}
