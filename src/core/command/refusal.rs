//! Refusals: a code that a program can match, and words that say what to do.

use core::fmt;

use super::Doc;
use super::options::Listed;
use crate::reason::{Reason, TOO_FAR};
use crate::words::{Fence, Millis};

/// A refused request. The request has changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal<'a> {
    /// The rules refuse it.
    Rule(Reason),
    /// Too few or too many arguments.
    Arity,
    /// Not a whole number, or out of its bounds.
    Number {
        /// The argument.
        what: &'static str,
        /// The smallest number allowed.
        least: u64,
        /// The largest.
        most: u64,
        /// The argument's value.
        given: &'a [u8],
    },
    /// Too short or too long.
    Length {
        /// The argument.
        what: &'static str,
        /// The fewest bytes allowed.
        least: usize,
        /// The most.
        most: usize,
        /// The number of bytes given.
        given: usize,
    },
    /// A word that is not an option of the command.
    Unknown {
        /// The word.
        given: &'a [u8],
        /// The command, which lists its options.
        doc: &'static Doc,
    },
    /// An option twice.
    Repeated(&'static str),
    /// An option without its value.
    Unfinished(&'static str),
    /// SHARED and LIMIT together.
    TwoModes,
    /// TURN without KEEP.
    TurnAlone,
    /// A lease that is longer than its KEEP.
    LongerThanKeep {
        /// The lease.
        ttl: Millis,
        /// The KEEP.
        keep: Millis,
    },
    /// FENCE or META without DONE.
    DoneAlone,
    /// RENEW or CLOSE without EPHEMERAL, at an agent.
    NotEphemeral,
    /// EPHEMERAL without a connection that could close.
    NoConnection,
    /// A replica grants nothing itself.
    Replica,
    /// An ordinary client sent a command that only servers send to each other.
    Internal(&'static str),
    /// A command between servers has arguments that no server writes.
    Malformed(&'static str),
    /// A command of dlock was called inside another one.
    Busy,
    /// FENCED with a smaller fence than the mark has seen.
    Stale {
        /// The mark's fence.
        mark: Fence,
        /// The fence given.
        given: Fence,
    },
    /// FENCED with a fence farther ahead than any clock near this node's.
    Poison {
        /// The fence given.
        given: Fence,
        /// The largest fence that the mark would accept now.
        most: Fence,
    },
    /// FENCED on a server that may evict any key, marks included.
    Evicts,
    /// No memory for a mark.
    NoMemory,
    /// FENCED inside FENCED.
    Nested,
    /// A command that would wait, inside FENCED.
    Blocking(&'a [u8]),
    /// FENCED with a command of another module.
    Foreign(&'a [u8]),
    /// FENCED in a cluster, on a server with threads that crashes.
    Threads,
    /// A command that cannot exist, inside FENCED.
    UnknownCommand(&'a [u8]),
}

impl From<Reason> for Refusal<'_> {
    fn from(reason: Reason) -> Self {
        Refusal::Rule(reason)
    }
}

impl fmt::Display for Refusal<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use Refusal as R;
        match *self {
            R::Rule(reason) => reason.fmt(f),
            R::Number { what, least, most, given } => {
                let given = Shown(given);
                write!(
                    f,
                    "ERR the value of {what} must be a whole number from {least} to {most}, not {given}"
                )
            }
            R::Length { what, least, most, given } => {
                write!(f, "ERR {what} must be {least} to {most} bytes long, not {given}")
            }
            R::Unknown { given, doc } => {
                write!(f, "ERR unknown option {}; valid options: {}", Shown(given), Listed(doc))
            }
            R::Repeated(option) => write!(f, "ERR the option {option} is given twice"),
            R::Unfinished(option) => write!(f, "ERR the option {option} needs a value"),
            R::LongerThanKeep { ttl, keep } => write!(
                f,
                "ERR ttl-ms {} is longer than KEEP {}; ask for at most that, and send DLOCK.EXTEND once \
                 the lock is granted",
                ttl.0, keep.0
            ),
            R::Internal(name) => write!(f, "ERR {name} is only for replication and the AOF"),
            R::Malformed(name) => write!(f, "ERR malformed {name}"),
            R::Stale { mark, given } => {
                write!(f, "STALE {} is the mark's fence, and {} is smaller", mark.0, given.0)
            }
            R::Poison { given, most } => write!(
                f,
                "{TOO_FAR} {} is the largest fence that this server accepts now; fence {} is more than a \
                 day ahead of its clock",
                most.0, given.0
            ),
            R::Blocking(name) => {
                write!(f, "NOTALLOWED DLOCK.FENCED cannot run {}, which blocks", Shown(name))
            }
            R::Foreign(name) => write!(
                f,
                "NOTALLOWED DLOCK.FENCED runs commands of the server itself only, and {} is not known to be one",
                Shown(name)
            ),
            R::UnknownCommand(name) => write!(f, "ERR unknown command {}", Shown(name)),
            _ => f.write_str(self.text()),
        }
    }
}

impl Refusal<'_> {
    /// The text of a refusal that names nothing.
    fn text(&self) -> &'static str {
        use Refusal as R;
        match self {
            R::Arity => "ERR wrong number of arguments",
            R::TwoModes => "ERR SHARED and LIMIT cannot be combined",
            R::TurnAlone => "ERR the option TURN needs KEEP",
            R::DoneAlone => "ERR FENCE and META need DONE",
            R::NotEphemeral => "ERR RENEW and CLOSE need EPHEMERAL",
            R::NoConnection => {
                "ERR EPHEMERAL needs a client connection, and a script or module call has none"
            }
            R::Replica => "READONLY this server is a replica; ask its primary",
            R::Busy => "ERR dlock is in the middle of another command; send this one afterwards",
            R::Evicts => {
                "ERR this server may evict marks; set maxmemory-policy to noeviction or volatile-*"
            }
            R::NoMemory => "OOM no memory for a new mark: 'maxmemory' is reached",
            R::Nested => "NOTALLOWED DLOCK.FENCED runs none of dlock's own commands",
            R::Threads => {
                "NOTALLOWED DLOCK.FENCED would crash this server in a cluster; set io-threads to 1"
            }
            _ => "ERR",
        }
    }
}

/// A client's bytes in a form that is safe on one line of an error reply: printable, and short.
struct Shown<'a>(&'a [u8]);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MOST: usize = 40;
        let head = self.0.get(..MOST).unwrap_or(self.0);
        write!(f, "'{}{}'", head.escape_ascii(), if self.0.len() > MOST { "..." } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use super::super::acquire;
    use super::*;
    use alloc::string::ToString;

    /// Some clients remove the code ERR.
    #[test]
    fn words_that_are_codes_do_not_follow_err() {
        let (what, given) = ("DONE", &b"1.0"[..]);
        for refusal in [
            Refusal::Number { what, least: 1, most: 2, given },
            Refusal::Repeated("FINAL"),
            Refusal::Unfinished("DONE"),
            Refusal::TurnAlone,
            Refusal::Rule(Reason::NotAlone),
        ] {
            let text = refusal.to_string();
            assert!(text.starts_with("ERR the "), "{text}");
        }
    }

    #[test]
    fn a_refusal_is_one_printable_line_whatever_was_given() {
        let given = b"\r\n\0\xff+OK";
        let text = Refusal::Unknown { given, doc: &acquire::DOC }.to_string();
        assert!(text.bytes().all(|b| (0x20..0x7f).contains(&b)), "{text}");
        let long = [b'x'; 4096];
        let text = Refusal::Number { what: "ttl-ms", least: 1, most: 2, given: &long }.to_string();
        assert!(text.len() < 160, "{text}");
    }
}
