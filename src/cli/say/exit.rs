//! Exit codes: those of sysexits.h, and those of shells.

use std::os::unix::process::ExitStatusExt;
use std::process::{ExitCode, ExitStatus};

use nix::sys::signal::Signal;

/// An exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit(pub u8);

impl Exit {
    pub const OK: Exit = Exit(0);
    /// Somebody else has the lock; or a check has found something.
    pub const CONFLICT: Exit = Exit(1);
    /// EX_USAGE.
    pub const USAGE: Exit = Exit(64);
    /// EX_DATAERR: the nodes refuse the request.
    pub const REFUSED: Exit = Exit(65);
    /// EX_UNAVAILABLE: no majority of the nodes.
    pub const NO_QUORUM: Exit = Exit(69);
    /// EX_SOFTWARE: a bug, or the system refuses something.
    pub const INTERNAL: Exit = Exit(70);
    /// EX_TEMPFAIL: the lock was lost.
    pub const LOST: Exit = Exit(75);
    /// EX_NOPERM: the nodes do not accept this user, or not for this command.
    pub const NO_PERMISSION: Exit = Exit(77);
    /// EX_CONFIG: the servers cannot be nodes for locks.
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

    /// The end of a command as shells report it.
    pub fn of(status: ExitStatus) -> Exit {
        match (status.code(), status.signal()) {
            (Some(code), _) => Exit(u8::try_from(code).unwrap_or(u8::MAX)),
            (None, Some(signal)) => Exit::by_signal(signal),
            (None, None) => Exit::INTERNAL,
        }
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

    #[test]
    fn a_command_ends_with_its_code_or_its_signal() {
        // As wait(2) encodes it: the code in the second byte, the signal in the first.
        assert_eq!(Exit::of(ExitStatus::from_raw(0)), Exit::OK);
        assert_eq!(Exit::of(ExitStatus::from_raw(3 << 8)), Exit(3));
        assert_eq!(Exit::of(ExitStatus::from_raw(255 << 8)), Exit(255));
        assert_eq!(Exit::of(ExitStatus::from_raw(9)), Exit(137));
    }
}
