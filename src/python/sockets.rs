//! The sockets of a runtime, which a child process inherits. The runtime's epoll instance watches all of them.
//!
//! The child closes them and sends nothing: the connections stay the parent's.

use std::fs;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;

use nix::sys::stat::{FileStat, SFlag, fstat};
use nix::unistd;

/// Finds the epoll instance of the runtime that polls this: the one that watches a new socket.
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
pub(crate) struct Watched {
    fd: RawFd,
    inode: u64,
}

/// Closes the sockets among these files. Skips a number that now is another file.
pub(crate) fn close(watched: Vec<Watched>) {
    for socket in watched.into_iter().filter(Watched::is_open_socket) {
        let _ = unistd::close(socket.fd);
    }
}

/// Returns the files that this epoll instance watches; none, if it is no epoll instance.
pub(crate) fn watched(epoll: RawFd) -> Vec<Watched> {
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

    /// True if this process has the same socket open under this number.
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
