//! What the program's end says: see sysexits.h, and what shells do.

use std::fmt::Display;
use std::process::ExitCode;

use dlock_client::Error;
use nix::sys::signal::Signal;

use crate::output::complain;

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
    /// EX_UNAVAILABLE: no majority of the nodes.
    pub const NO_QUORUM: Exit = Exit(69);
    /// EX_SOFTWARE: a bug, or a system that refuses what it should not.
    pub const INTERNAL: Exit = Exit(70);
    /// EX_TEMPFAIL: the lock was lost.
    pub const LOST: Exit = Exit(75);
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
    pub exit: Exit,
    /// For stderr; may have several lines. Empty: there is nothing to say.
    pub message: String,
}

impl Failure {
    pub fn usage(message: impl Display) -> Failure {
        Failure { exit: Exit::USAGE, message: message.to_string() }
    }

    /// The system refuses something that it should not.
    pub fn internal(error: &impl Display) -> Failure {
        Failure { exit: Exit::INTERNAL, message: error.to_string() }
    }

    /// Says it on stderr.
    pub fn report(self) -> Exit {
        complain(self.message);
        self.exit
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let exit = match error {
            Error::Held { .. } => Exit::CONFLICT,
            Error::Usage(_) | Error::Duplicate { .. } => Exit::USAGE,
            Error::Lost(_) => Exit::LOST,
            _ => Exit::NO_QUORUM,
        };
        Failure { exit, message: error.to_string() }
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
    use dlock_client::Key;

    #[test]
    fn a_signal_counts_from_128() {
        assert_eq!(Exit::by_signal(15), Exit(143));
        assert_eq!(Exit::by_signal(64), Exit(192));
        assert_eq!(Exit::by_signal(1000), Exit(255));
    }

    #[test]
    fn a_held_lock_is_told_from_nodes_that_are_not_there() {
        let (key, nodes) = (Key::from("k"), vec![]);
        let held = Error::Held { key: key.clone(), holder: None, nodes: vec![] };
        assert_eq!(Failure::from(held).exit, Exit::CONFLICT);
        let no_quorum = Error::NoQuorum { key, needed: 2, nodes };
        assert_eq!(Failure::from(no_quorum).exit, Exit::NO_QUORUM);
        assert_eq!(Failure::from(Error::Usage("no".to_owned())).exit, Exit::USAGE);
    }
}
