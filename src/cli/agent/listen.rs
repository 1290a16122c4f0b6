//! The addresses of an agent: a unix socket, or a port of this machine behind a password.

use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener as StdTcp};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixListener as StdUnix;
use std::path::{Path, PathBuf};

use listenfd::ListenFd;
use nix::sys::stat::{Mode, umask};
use tokio::net::{TcpListener, UnixListener, UnixStream};

use super::connection::Stream;
use super::peer::Peer;

/// An address of `--listen`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum At {
    Unix(PathBuf),
    Tcp(SocketAddr),
}

pub enum Listener {
    Unix(UnixListener),
    Tcp(TcpListener),
}

/// Parses the value of `--listen`.
pub fn parse(text: &str) -> Result<At, String> {
    if let Some(path) = text.strip_prefix("unix:").filter(|path| !path.is_empty()) {
        return Ok(At::Unix(path.into()));
    }
    let Some(address) = text.strip_prefix("tcp:") else {
        return Err("expected unix:PATH or tcp:127.0.0.1:PORT".to_owned());
    };
    match address.parse::<SocketAddr>() {
        Ok(address) if address.ip().is_loopback() => Ok(At::Tcp(address)),
        Ok(_) => Err(NOT_LOOPBACK.to_owned()),
        Err(error) => Err(format!("{error}: expected tcp:127.0.0.1:PORT or tcp:[::1]:PORT")),
    }
}

/// The sockets that systemd has opened for this process.
pub fn inherited() -> Result<Vec<Listener>, String> {
    let mut given = ListenFd::from_env();
    let mut all = Vec::new();
    for index in 0..given.len() {
        all.push(taken(&mut given, index)?);
    }
    Ok(all)
}

fn taken(given: &mut ListenFd, index: usize) -> Result<Listener, String> {
    let failed = |error: io::Error| format!("cannot use the socket {index} of LISTEN_FDS: {error}");
    if let Ok(Some(listener)) = given.take_unix_listener(index) {
        listener.set_nonblocking(true).map_err(failed)?;
        return Ok(Listener::Unix(UnixListener::from_std(listener).map_err(failed)?));
    }
    let Some(listener) = given.take_tcp_listener(index).map_err(failed)? else {
        return Err(format!("there is no socket {index} in LISTEN_FDS"));
    };
    match listener.local_addr().map_err(failed)?.ip().is_loopback() {
        true => tcp(listener).map_err(failed),
        false => Err(NOT_LOOPBACK.to_owned()),
    }
}

impl At {
    /// Opens the socket, and listens.
    pub async fn open(&self) -> Result<Listener, String> {
        let failed = |error: io::Error| format!("cannot listen at {self}: {error}");
        match self {
            At::Unix(path) => unix(path).await.map_err(failed),
            At::Tcp(address) => StdTcp::bind(address).and_then(tcp).map_err(failed),
        }
    }
}

fn tcp(listener: StdTcp) -> io::Result<Listener> {
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener).map(Listener::Tcp)
}

async fn unix(path: &Path) -> io::Result<Listener> {
    if let Ok(there) = fs::metadata(path) {
        if !there.file_type().is_socket() {
            return Err(io::Error::other("there is a file that is no socket"));
        }
        match UnixStream::connect(path).await {
            Ok(_) => return Err(io::Error::other(ANOTHER)),
            // A process listens there, and its queue of connections is full.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Err(io::Error::other(ANOTHER));
            }
            // The socket of a process that has ended.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                fs::remove_file(path)?
            }
            Err(error) => return Err(error),
        }
    }
    // The owner and the group may connect. The umask is the process's, but no other thread creates files now.
    let before = umask(Mode::S_IXUSR | Mode::S_IXGRP | Mode::S_IRWXO);
    let listener = StdUnix::bind(path);
    umask(before);
    let listener = listener?;
    listener.set_nonblocking(true)?;
    Ok(Listener::Unix(UnixListener::from_std(listener)?))
}

impl Listener {
    /// True for a port, which every user of this machine can reach.
    pub fn needs_password(&self) -> bool {
        matches!(self, Listener::Tcp(_))
    }

    pub async fn accept(&self) -> io::Result<(Stream, Peer)> {
        match self {
            Listener::Unix(listener) => {
                let (stream, _) = listener.accept().await?;
                let peer = Peer::of(&stream)?;
                Ok((Stream::Unix(stream), peer))
            }
            Listener::Tcp(listener) => {
                let (stream, _) = listener.accept().await?;
                stream.set_nodelay(true)?;
                Ok((Stream::Tcp(stream), Peer::Tcp))
            }
        }
    }

    /// The path of a unix socket, if it has one.
    pub fn path(&self) -> Option<PathBuf> {
        let Listener::Unix(listener) = self else { return None };
        Some(listener.local_addr().ok()?.as_pathname()?.to_owned())
    }

    /// The address, for people and for clients.
    pub fn name(&self) -> String {
        match self {
            Listener::Unix(_) => {
                format!("unix:{}", self.path().unwrap_or_default().display())
            }
            Listener::Tcp(listener) => match listener.local_addr() {
                Ok(address) => format!("tcp:{address}"),
                Err(_) => "tcp:".to_owned(),
            },
        }
    }
}

impl std::fmt::Display for At {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            At::Unix(path) => write!(f, "unix:{}", path.display()),
            At::Tcp(address) => write!(f, "tcp:{address}"),
        }
    }
}

const ANOTHER: &str = "another process listens there";
const NOT_LOOPBACK: &str =
    "an agent listens on this machine alone: use a unix socket, or tcp:127.0.0.1:PORT";
