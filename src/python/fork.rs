//! Fork: a child gets a copy of the memory and of the open sockets, and no thread that serves them.
//!
//! In the child nothing of the parent's is used or dropped ([`Own`]), for each request and each end of
//! a connection would be the parent's. Its sockets are closed without a word: an EPHEMERAL lock ends
//! with its last socket, which must not be one that a child has inherited.

use std::cell::Cell;
use std::fs;
use std::mem;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::process;
use std::sync::mpsc::Sender;
use std::sync::{Mutex, PoisonError};

use nix::sys::stat::{FileStat, SFlag, fstat};
use nix::unistd;
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;

use crate::runtime::{self, Runtime};

/// A value of the process that made it. A child of that process neither gets nor drops it.
pub(crate) struct Own<T> {
    value: Option<T>,
    process: u32,
}

impl<T> Own<T> {
    pub(crate) fn new(value: T) -> Own<T> {
        Own { value: Some(value), process: process::id() }
    }

    /// Whether it belongs to the parent of this process.
    pub(crate) fn is_inherited(&self) -> bool {
        self.process != process::id()
    }

    pub(crate) fn get(&self) -> Option<&T> {
        if self.is_inherited() { None } else { self.value.as_ref() }
    }

    pub(crate) fn take(&mut self) -> Option<T> {
        if self.is_inherited() { None } else { self.value.take() }
    }
}

impl<T> Drop for Own<T> {
    fn drop(&mut self) {
        if self.is_inherited() {
            mem::forget(self.value.take());
        }
    }
}

/// A thread that forks goes on in the child, with the source of its random numbers: parent and child would make
/// the same tokens. So it gets a new one when it is found in another process than before.
pub(crate) fn reseed() -> PyResult<()> {
    thread_local! {
        static SEEDED: Cell<u32> = const { Cell::new(0) };
    }
    if SEEDED.get() != process::id() {
        let none = |error| PyOSError::new_err(format!("no random numbers: {error}"));
        rand::rng().reseed().map_err(none)?;
        SEEDED.set(process::id());
    }
    Ok(())
}

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
        Fork { _resume, watched: runtime.epoll.map(watched).unwrap_or_default() }
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
            close(mem::take(&mut fork.watched));
            // The runtime is not in this process, so nothing goes on here.
            mem::forget(fork);
        }
        None => runtime::last(py).iter().for_each(|runtime| close_sockets_of_parent(runtime)),
    }
}

/// For children of which Python was not told before. Some sockets may be missed.
pub(crate) fn close_sockets_of_parent(runtime: &Runtime) {
    if runtime.process != process::id() {
        close(runtime.epoll.map(watched).unwrap_or_default());
    }
}

fn close(watched: Vec<Watched>) {
    for socket in watched.into_iter().filter(Watched::is_open_socket) {
        let _ = unistd::close(socket.fd);
    }
}

fn set_fork(fork: Option<Fork>) -> Option<Fork> {
    mem::replace(&mut FORK.lock().unwrap_or_else(PoisonError::into_inner), fork)
}

/// The epoll instance of the runtime that polls this. It is the one that watches a new socket of ours.
pub(crate) fn epoll_of_this_runtime() -> Option<RawFd> {
    let (marker, _other_end) = UnixStream::pair().ok()?;
    marker.set_nonblocking(true).ok()?;
    let marker = tokio::net::UnixStream::from_std(marker).ok()?;
    let wanted = Watched { fd: marker.as_raw_fd(), inode: fstat(&marker).ok()?.st_ino };
    let open = fs::read_dir("/proc/self/fd").ok()?.flatten();
    let mut open = open.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    open.find(|fd| watched(*fd).contains(&wanted))
}

/// A file that an epoll instance watches.
#[derive(PartialEq, Eq)]
struct Watched {
    fd: RawFd,
    inode: u64,
}

/// What this epoll instance watches; nothing, if it is none.
fn watched(epoll: RawFd) -> Vec<Watched> {
    let text = fs::read_to_string(format!("/proc/self/fdinfo/{epoll}")).unwrap_or_default();
    text.lines().filter_map(Watched::read).collect()
}

impl Watched {
    /// Reads a line like `tfd: 9 events: 8000001f data: 7f00 pos:0 ino:3f5a sdev:8`.
    fn read(line: &str) -> Option<Watched> {
        let rest = line.strip_prefix("tfd:")?;
        let fd = rest.split_whitespace().next()?.parse().ok()?;
        let inode = rest.split_whitespace().find_map(|word| word.strip_prefix("ino:"))?;
        Some(Watched { fd, inode: u64::from_str_radix(inode, 16).ok()? })
    }

    /// Whether this process has the same socket open under this number.
    fn is_open_socket(&self) -> bool {
        let is_socket = |stat: &FileStat| {
            SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT == SFlag::S_IFSOCK
        };
        file(self.fd).is_some_and(|stat| stat.st_ino == self.inode && is_socket(&stat))
    }
}

fn file(fd: RawFd) -> Option<FileStat> {
    nix::sys::stat::stat(format!("/proc/self/fd/{fd}").as_str()).ok()
}
