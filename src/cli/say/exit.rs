//! Exit codes, from sysexits.h and from shells.

use std::os::unix::process::ExitStatusExt;
use std::process::{ExitCode, ExitStatus};

use nix::sys::signal::Signal;

/// The end of dlock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    Code(u8),
    /// The end by this signal, as if dlock did not catch it: only after such an end a shell leaves its loop.
    Signal(Signal),
}

impl Exit {
    pub const OK: Exit = Exit::Code(0);
    /// Another client has the lock; or a check has found something.
    pub const CONFLICT: Exit = Exit::Code(1);
    /// EX_USAGE.
    pub const USAGE: Exit = Exit::Code(64);
    /// EX_DATAERR: the nodes refuse the request.
    pub const REFUSED: Exit = Exit::Code(65);
    /// EX_UNAVAILABLE: no majority of the nodes.
    pub const NO_QUORUM: Exit = Exit::Code(69);
    /// EX_SOFTWARE: a bug, or an error of the system.
    pub const INTERNAL: Exit = Exit::Code(70);
    /// EX_TEMPFAIL: the lock was lost.
    pub const LOST: Exit = Exit::Code(75);
    /// EX_NOPERM: the nodes do not accept this user, or not for this command.
    pub const NO_PERMISSION: Exit = Exit::Code(77);
    /// EX_CONFIG: the servers cannot be nodes for locks.
    pub const UNFIT: Exit = Exit::Code(78);
    pub const CANNOT_EXECUTE: Exit = Exit::Code(126);
    pub const NOT_FOUND: Exit = Exit::Code(127);

    /// The end of a command as shells report it.
    pub fn of(status: ExitStatus) -> Exit {
        match (status.code(), status.signal()) {
            (Some(code), _) => Exit::Code(u8::try_from(code).unwrap_or(u8::MAX)),
            (None, Some(signal)) => Exit::Code(code_of(signal)),
            (None, None) => Exit::INTERNAL,
        }
    }

    pub const fn code(self) -> u8 {
        match self {
            Exit::Code(code) => code,
            Exit::Signal(signal) => code_of(signal as i32),
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit.code())
    }
}

/// The exit code of shells for the end by a signal.
const fn code_of(signal: i32) -> u8 {
    if signal < 128 { (128 + signal) as u8 } else { u8::MAX }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_counts_from_128() {
        assert_eq!(Exit::Signal(Signal::SIGTERM).code(), 143);
        assert_eq!((code_of(64), code_of(1000)), (192, 255));
    }

    #[test]
    fn a_command_ends_with_its_code_or_its_signal() {
        // As wait(2) encodes it: the code in the second byte, the signal in the first.
        assert_eq!(Exit::of(ExitStatus::from_raw(0)), Exit::OK);
        assert_eq!(Exit::of(ExitStatus::from_raw(3 << 8)), Exit::Code(3));
        assert_eq!(Exit::of(ExitStatus::from_raw(255 << 8)), Exit::Code(255));
        assert_eq!(Exit::of(ExitStatus::from_raw(9)), Exit::Code(137));
    }
}
