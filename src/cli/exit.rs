//! What the program's end says: see sysexits.h, and what shells do.

use std::fmt::Display;
use std::process::ExitCode;

use dlock_client::Error;
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::kind::Kind;
use crate::output::{self, complain};

/// An exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit(pub u8);

#[allow(dead_code)] // not every subcommand needs all of them
impl Exit {
    pub const OK: Exit = Exit(0);
    /// Somebody else has the lock; also: not everything is well.
    pub const CONFLICT: Exit = Exit(1);
    /// EX_USAGE.
    pub const USAGE: Exit = Exit(64);
    /// EX_DATAERR: the nodes refuse what is asked for.
    pub const REFUSED: Exit = Exit(65);
    /// EX_UNAVAILABLE: no majority of the nodes.
    pub const NO_QUORUM: Exit = Exit(69);
    /// EX_SOFTWARE: a bug, or a system that refuses what it should not.
    pub const INTERNAL: Exit = Exit(70);
    /// EX_TEMPFAIL: the lock was lost.
    pub const LOST: Exit = Exit(75);
    /// EX_NOPERM: the nodes do not accept this user, or not for this.
    pub const NO_PERMISSION: Exit = Exit(77);
    /// EX_CONFIG: the servers are no nodes for locks.
    pub const UNFIT: Exit = Exit(78);
    pub const CANNOT_EXECUTE: Exit = Exit(126);
    pub const NOT_FOUND: Exit = Exit(127);

    pub fn by(signal: Signal) -> Exit {
        Exit::by_signal(signal as i32)
    }

    /// As shells report it.
    pub fn by_signal(number: i32) -> Exit {
        Exit(u8::try_from(128 + number).unwrap_or(u8::MAX))
    }
}

/// Why a subcommand ends early.
#[derive(Debug)]
pub struct Failure {
    pub kind: Kind,
    /// The kind's own, unless the user has chosen another.
    pub exit: Exit,
    /// For stderr; may have several lines. Empty: there is nothing to say.
    pub message: String,
}

impl Failure {
    pub fn new(kind: Kind, message: impl Display) -> Failure {
        Failure { kind, exit: kind.exit(), message: message.to_string() }
    }

    pub fn usage(message: impl Display) -> Failure {
        Failure::new(Kind::Usage, message)
    }

    /// The system refuses something that it should not.
    pub fn internal(error: &impl Display) -> Failure {
        Failure::new(Kind::Internal, error)
    }

    /// Says it on stderr.
    pub fn report(self, as_json: bool) -> Exit {
        match as_json {
            true if self.message.is_empty() => {}
            true => output::say(&self.event()),
            false => complain(self.message),
        }
        self.exit
    }

    /// For programs.
    pub fn event(&self) -> Value {
        json!({"event": "error", "kind": self.kind.name(), "message": self.message})
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::new(Kind::from(&error), error)
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_counts_from_128() {
        assert_eq!(Exit::by_signal(15), Exit(143));
        assert_eq!(Exit::by_signal(64), Exit(192));
        assert_eq!(Exit::by_signal(1000), Exit(255));
    }
}
