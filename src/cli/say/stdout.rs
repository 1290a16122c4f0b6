//! Output to stdout. Only this module knows that a reader that goes away early is no failure.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::stat::{fstat, stat};
use serde_json::Value;

use super::failure::Failure;

/// Prints all of it at once.
pub fn print(bytes: impl AsRef<[u8]>) -> Result<(), Failure> {
    match deliver(bytes) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Failure::internal(&error)),
        _ => Ok(()),
    }
}

/// Prints a line.
pub fn line(text: impl Display) -> Result<(), Failure> {
    print(format!("{text}\n"))
}

/// Prints one object, on a line of its own.
pub fn json(value: &Value) -> Result<(), Failure> {
    line(value)
}

/// True if stdout was closed when dlock started (`>&-`), so that its output has no reader. The standard
/// library then opens the null device in its place, for reading and writing; `>/dev/null` is for writing
/// alone.
pub fn is_closed() -> bool {
    let null = stat("/dev/null").map(|null| null.st_rdev);
    let own = fstat(io::stdout()).map(|own| own.st_rdev);
    let flags = fcntl(io::stdout(), FcntlArg::F_GETFL).map(OFlag::from_bits_truncate);
    let reads = flags.is_ok_and(|flags| flags & OFlag::O_ACCMODE == OFlag::O_RDWR);
    reads && own.is_ok() && own == null
}

/// Prints output that must reach its reader: a reader that has gone is an error.
pub fn deliver(bytes: impl AsRef<[u8]>) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes.as_ref())?;
    stdout.flush()
}
