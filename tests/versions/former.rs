//! The module and the program of the former version.

use std::env;
use std::path::PathBuf;

use harness::{Builder, Kind, Server};

/// Its program.
pub fn program() -> PathBuf {
    file("dlock")
}

/// A server with its module, which has never granted a lock.
pub fn node(kind: Kind) -> Builder {
    Server::build(kind).module(&file("libdlock.so")).as_it_comes()
}

fn file(name: &str) -> PathBuf {
    let folder = env::var_os("DLOCK_FORMER").expect("DLOCK_FORMER: run `make test-versions`");
    PathBuf::from(folder).join(name)
}
