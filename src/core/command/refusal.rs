//! Refusals: a code that a program can match, and words that say what to change.

use core::fmt;

use super::Doc;
use super::options::Listed;
use crate::durability::quarantine::Cause;
use crate::limits::MAX_HOLDERS;
use crate::words::{Fence, Millis, Mode};

/// A refused request. The request has changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal<'a> {
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
    /// A word that is no option of the command.
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
    /// EPHEMERAL without a connection that could close.
    NoConnection,
    /// A proposed fence ahead of what this node accepts.
    TooFar {
        /// The proposal.
        given: u64,
        /// The largest that would be accepted now.
        most: u64,
    },
    /// A fence ahead of the clock, of a user of whose keys too many have such fences already.
    TooManyAhead {
        /// The fence.
        given: u64,
        /// The largest that would be accepted now.
        most: u64,
    },
    /// The token holds the lock in another mode than it now asks for.
    OtherMode {
        /// The mode held.
        held: Mode,
        /// The mode asked for.
        asked: Mode,
    },
    /// The semaphore has another number of permits.
    OtherLimit {
        /// The permits that the holders gave.
        held: u16,
        /// The permits that this request gave.
        asked: u16,
    },
    /// The key has as many holders as one key can have.
    TooManyHolders,
    /// The key holds data of another type.
    WrongType,
    /// The node has as many waiters as it may have.
    TooManyWaiters(u64),
    /// The locks of this node take as many bytes as they may.
    TooManyLocks {
        /// The limit in bytes.
        most: u64,
    },
    /// The user has as many leases longer than the usual length as it may have.
    TooManyLong {
        /// The usual length in ms, for which there is always room.
        usual: u64,
    },
    /// The token was released with FINAL.
    Final,
    /// The node has no room to remember one more token that was released with FINAL.
    TooManyFinals,
    /// A replica decides nothing.
    Replica,
    /// The node may have forgotten leases, and grants nothing for a while.
    Quarantine {
        /// The reason why the node may have forgotten leases.
        cause: Cause,
        /// Time left of the quarantine.
        left: Millis,
    },
    /// The promise in the state file is used up, and dlock cannot write a new one.
    NotDurable,
    /// No larger fence exists.
    Exhausted,
    /// An ordinary client sent a command that only servers send to each other.
    Internal(&'static str),
    /// A command between servers has arguments that no server writes.
    Malformed(&'static str),
    /// A command of dlock was called inside another one.
    Busy,
    /// GUARD by a token that does not hold the lock now.
    NotHeld,
    /// FENCED with a smaller fence than the mark has seen.
    Stale {
        /// The mark's fence.
        mark: Fence,
        /// The fence given.
        given: Fence,
    },
    /// FENCED with a fence farther ahead than any clock near this one.
    Poison {
        /// The fence given.
        given: Fence,
        /// The largest fence that the mark would accept now.
        most: Fence,
    },
    /// FENCED on a server that may evict any key, marks too.
    Evicts,
    /// No memory for a mark.
    NoMemory,
    /// GUARD or FENCED inside one of them.
    Nested,
    /// A command that would wait, inside GUARD or FENCED.
    Blocking(&'a [u8]),
    /// A command that cannot exist, inside GUARD or FENCED.
    UnknownCommand(&'a [u8]),
}

impl fmt::Display for Refusal<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use Refusal as R;
        match *self {
            R::Arity => write!(f, "ERR wrong number of arguments"),
            R::Number { what, least, most, given } => {
                let given = Shown(given);
                write!(f, "ERR {what} must be a whole number from {least} to {most}, not {given}")
            }
            R::Length { what, least, most, given } => {
                write!(f, "ERR {what} must be {least} to {most} bytes long, not {given}")
            }
            R::Unknown { given, doc } => {
                write!(f, "ERR unknown option {}; there is {}", Shown(given), Listed(doc))
            }
            R::Repeated(option) => write!(f, "ERR {option} is given twice"),
            R::Unfinished(option) => write!(f, "ERR {option} needs a value"),
            R::TwoModes => write!(f, "ERR SHARED and LIMIT exclude each other"),
            R::TurnAlone => write!(f, "ERR TURN needs KEEP"),
            R::NoConnection => write!(
                f,
                "ERR EPHEMERAL ends with a connection, and a script or module call has none"
            ),
            R::TooFar { given, most } => {
                write!(
                    f,
                    "{TOO_FAR} {most} is the largest fence that this node accepts now; FENCE {given} is \
                     more than ten minutes ahead of its clock"
                )
            }
            R::TooManyAhead { given, most } => {
                write!(
                    f,
                    "{TOO_FAR} {most} is the largest fence that this node accepts now from this user, of \
                     whose keys too many have fences ahead of its clock; FENCE {given} is farther ahead"
                )
            }
            R::OtherMode { held, asked } => write!(
                f,
                "OTHERMODE this token holds the lock {held} and now asks for it {asked}; release it \
                 first"
            ),
            R::OtherLimit { held, asked } => {
                write!(f, "OTHERMODE the lock is held with LIMIT {held}, not LIMIT {asked}")
            }
            R::TooManyHolders => {
                write!(f, "TOOMANYHOLDERS the lock has {MAX_HOLDERS} holders, the most")
            }
            R::WrongType => {
                f.write_str("WRONGTYPE Operation against a key holding the wrong kind of value")
            }
            R::TooManyWaiters(most) => write!(
                f,
                "TOOMANYWAITERS the user has as many waiting requests as one user may: at most {most}, and fewer while others wait (dlock.max-waiters)"
            ),
            R::TooManyLocks { most } => write!(
                f,
                "TOOMANYLOCKS the locks on this node take the {most} bytes that they may \
                 (dlock.max-memory-percent of maxmemory)"
            ),
            R::TooManyLong { usual } => write!(
                f,
                "TOOMANYLONG this user has leases longer than {usual} ms (dlock.usual-ttl) on as \
                 many keys as it may; ask for a shorter one"
            ),
            R::Final => write!(
                f,
                "FINAL this token was released for good; take a new one for each acquisition"
            ),
            R::TooManyFinals => write!(
                f,
                "TOOMANYFINALS this user has released as many tokens with FINAL as are remembered; \
                 release without FINAL, or again in a minute"
            ),
            R::Replica => write!(f, "READONLY this node is a replica; ask its primary"),
            R::Quarantine { cause, left } => write!(f, "QUARANTINE {} ms left: {cause}", left.0),
            R::NotDurable => write!(
                f,
                "NOTDURABLE the state file cannot be written, and what it promised is used up; \
                 DLOCK.NODE says why"
            ),
            R::Exhausted => {
                write!(f, "EXHAUSTED this node has handed out the largest fence there is")
            }
            R::Internal(name) => write!(f, "ERR {name} is for replication and the AOF alone"),
            R::Malformed(name) => write!(f, "ERR malformed {name}"),
            R::Busy => {
                write!(f, "ERR dlock is in the middle of another command; call it afterwards")
            }
            R::NotHeld => write!(f, "NOTHELD the token does not hold the lock now"),
            R::Stale { mark, given } => {
                write!(f, "STALE {} is the mark's fence, and {} is smaller", mark.0, given.0)
            }
            R::Poison { given, most } => write!(
                f,
                "{TOO_FAR} {} is the largest fence that this server accepts now; fence {} is more than a \
                 day ahead of its clock",
                most.0, given.0
            ),
            R::Evicts => write!(
                f,
                "ERR this server may evict marks; FENCED needs a maxmemory-policy that is \
                 noeviction or volatile-*"
            ),
            R::NoMemory => write!(f, "OOM no memory for a new mark: 'maxmemory' is used up"),
            R::Nested => write!(f, "NOTALLOWED DLOCK.GUARD and DLOCK.FENCED cannot be nested"),
            R::Blocking(name) => {
                write!(f, "NOTALLOWED {} would wait, and cannot be guarded", Shown(name))
            }
            R::UnknownCommand(name) => write!(f, "ERR unknown command {}", Shown(name)),
        }
    }
}

/// The code for a fence that is too far ahead. The library recognises it.
pub const TOO_FAR: &str = "TOOFAR";

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

    #[test]
    fn a_proposal_too_far_ahead_has_a_code_of_its_own() {
        let text = Refusal::TooFar { given: 9, most: 7 }.to_string();
        let whole = "TOOFAR 7 is the largest fence that this node accepts now; FENCE 9 is more \
                     than ten minutes ahead of its clock";
        assert_eq!(text, whole);
    }

    #[test]
    fn what_a_client_may_want_to_tell_apart_has_a_code() {
        let (held, asked) = (Mode::Shared, Mode::Exclusive);
        for (refusal, code) in [
            (Refusal::OtherMode { held, asked }, "OTHERMODE"),
            (Refusal::OtherLimit { held: 2, asked: 3 }, "OTHERMODE"),
            (Refusal::TooManyHolders, "TOOMANYHOLDERS"),
        ] {
            assert_eq!(refusal.to_string().split(' ').next(), Some(code), "{refusal:?}");
        }
        let text = Refusal::OtherMode { held, asked }.to_string();
        assert!(text.contains("SHARED") && text.contains("exclusively"), "{text}");
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
