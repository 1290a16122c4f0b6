//! Output to stdout. A reader that goes away early is no failure.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};

use serde_json::Value;

use super::bytes;
use super::failure::Failure;

/// Prints all of it at once.
pub fn print(bytes: impl AsRef<[u8]>) -> Result<(), Failure> {
    match deliver(bytes) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::internal(&format_args!("cannot write to stdout: {error}")))
        }
        _ => Ok(()),
    }
}

/// Prints a line.
pub fn line(text: impl Display) -> Result<(), Failure> {
    print(format!("{text}\n"))
}

/// Prints one object, on a line of its own.
pub fn json(value: &Value) -> Result<(), Failure> {
    print(bytes::line(value))
}

/// Prints output that must reach its reader: a reader that has gone is an error.
pub fn deliver(bytes: impl AsRef<[u8]>) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes.as_ref())?;
    stdout.flush()
}
