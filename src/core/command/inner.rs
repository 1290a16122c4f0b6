//! The command inside FENCED: the names allowed, and the error if the server does not begin
//! the command.

use alloc::format;
use alloc::string::{String, ToString};

use super::Refusal;

/// The beginning of dlock's commands.
const OWN: &[u8] = b"DLOCK.";

/// Checks that a command of this name may be inside.
///
/// # Errors
/// Fails if it may not.
pub fn check(name: &[u8]) -> Result<(), Refusal<'_>> {
    // Without this check a request could nest FENCED as deep as it is long.
    if name.get(..OWN.len()).is_some_and(|start| start.eq_ignore_ascii_case(OWN)) {
        return Err(Refusal::Nested);
    }
    if BLOCKING.iter().any(|other| name.eq_ignore_ascii_case(other)) {
        return Err(Refusal::Blocking(name));
    }
    if name.len() > MAX_NAME || name.contains(&0) {
        return Err(Refusal::UnknownCommand(name));
    }
    Ok(())
}

/// The longest name of a command; the server's own are much shorter.
pub const MAX_NAME: usize = 63;

/// Beginnings of the server's replies to a command that a script could not call now.
const SCRIPT: [&str; 6] =
    ["ERR command '", "NOREPLICAS ", "MISCONF ", "READONLY ", "MASTERDOWN ", "NOMASTERLINK "];

/// Commands that block their client. Some servers refuse them inside, others let them answer at once.
const BLOCKING: [&[u8]; 10] = [
    b"BLPOP",
    b"BRPOP",
    b"BRPOPLPUSH",
    b"BLMOVE",
    b"BLMPOP",
    b"BZPOPMIN",
    b"BZPOPMAX",
    b"BZMPOP",
    b"WAIT",
    b"WAITAOF",
];

/// The reason why the server did not begin a command. A command that began has sent its own reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// No such command exists, or it has other arguments.
    Unknown,
    /// The user may not call the command, or another module calls without a user.
    Rights,
    /// The server has no memory left.
    Memory,
    /// Scripts may not call the command, or the server takes no writes now, as its error says.
    Script,
    /// Another node of the cluster has the key.
    Elsewhere,
    /// The cluster is down.
    ClusterDown,
}

impl Refused {
    /// The error for the client: the server's words, under a code that a program can match. `None`: the server
    /// does not refuse with these words, so a command has run and replied with them.
    #[must_use]
    pub fn words(self, server: &str) -> Option<String> {
        let (code, known): (_, &[&str]) = match self {
            Refused::Unknown => ("ERR", &["ERR unknown ", "ERR wrong number of arguments"]),
            Refused::Rights => ("NOPERM", &["ERR acl ", "NOPERM ", "ERR cannot run as user"]),
            Refused::Memory => ("OOM", &["OOM "]),
            Refused::Script => ("NOTALLOWED", &SCRIPT),
            Refused::Elsewhere => ("CROSSSLOT", &["ERR Attempted to access a non local key"]),
            Refused::ClusterDown => ("CLUSTERDOWN", &["ERR Can not execute a "]),
        };
        if !known.iter().any(|start| server.starts_with(start)) {
            return None;
        }
        Some(match server.strip_prefix("ERR ") {
            Some(words) => format!("{code} {words}"),
            None => server.to_string(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_nests_or_blocks_is_refused_in_any_spelling() {
        for name in
            ["dlock.fenced", "DLOCK.FENCED", "DLock.Acquire", "dlock.", "dlock.fenced\x0019"]
        {
            assert_eq!(check(name.as_bytes()), Err(Refusal::Nested));
        }
        assert_eq!(check(b"blpop"), Err(Refusal::Blocking(b"blpop")));
        for name in [&b"SET"[..], b"DLOCK", b"WAITS", b"", b"\xff"] {
            assert_eq!(check(name), Ok(()));
        }
    }

    #[test]
    fn a_name_that_c_would_cut_is_unknown() {
        for name in [&b"SET\0"[..], b"set\x0019", b"\0"] {
            assert_eq!(check(name), Err(Refusal::UnknownCommand(name)));
        }
        assert!(check(&[b'x'; MAX_NAME]).is_ok());
        assert!(check(&[b'x'; MAX_NAME + 1]).is_err());
    }

    #[test]
    fn prose_gets_a_code_and_a_code_stays() {
        let words = Refused::Rights.words("ERR acl verification failed, no right");
        assert_eq!(words.unwrap(), "NOPERM acl verification failed, no right");
        let words = Refused::Script.words("NOREPLICAS Not enough good replicas to write.");
        assert_eq!(words.unwrap(), "NOREPLICAS Not enough good replicas to write.");
    }

    #[test]
    fn what_no_server_says_when_it_refuses_was_said_by_a_command_that_has_run() {
        assert_eq!(Refused::Unknown.words("ERR value is not a valid float"), None);
        assert_eq!(Refused::Elsewhere.words("IOERR error or timeout connecting"), None);
    }
}
