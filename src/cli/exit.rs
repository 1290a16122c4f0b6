//! What the program's end says: see sysexits.h, and what shells do.

use std::process::ExitCode;

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

    /// As shells report it.
    pub fn by_signal(number: i32) -> Exit {
        Exit(u8::try_from(128 + number).unwrap_or(u8::MAX))
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
