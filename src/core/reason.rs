//! The reasons why the rules refuse a request.

use core::fmt;

use crate::durability::quarantine::Cause;
use crate::limits::{MAX_DONE, MAX_HOLDERS, MAX_WAITERS};
use crate::words::{Fence, Millis, Mode};

/// The reason why the rules refuse a request. The request has changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A proposed fence ahead of what this node accepts.
    TooFar {
        /// The proposal.
        given: u64,
        /// The largest fence that is accepted now.
        most: u64,
    },
    /// A fence ahead of the clock. Too many keys of this user have such fences already.
    TooManyAhead {
        /// The fence.
        given: u64,
        /// The largest fence that is accepted now.
        most: u64,
    },
    /// The token holds the lock in another mode than it now asks for.
    OtherMode {
        /// The mode held.
        held: Mode,
        /// The mode asked for.
        asked: Mode,
    },
    /// The key has as many holders as one key can have.
    TooManyHolders,
    /// The key holds data of another type.
    WrongType,
    /// The user has as many waiting requests as it may have.
    TooManyWaiters,
    /// The locks of this node take as many bytes as they may.
    TooManyLocks {
        /// The limit in bytes.
        most: u64,
    },
    /// A lease that is longer than the longest new one.
    TooLong {
        /// The length in ms.
        given: u64,
        /// The longest in ms.
        most: u64,
    },
    /// The token was released with FINAL.
    Final,
    /// The lock is done, and cannot be taken for a while.
    Done {
        /// Time left; `None`: for ever.
        left: Option<Millis>,
        /// The fence of the finished claim.
        fence: Fence,
    },
    /// DONE by a token that does not hold the lock alone, by DLOCK.ACQUIRE.
    NotAlone,
    /// The user has as many done locks as it may have.
    TooManyDone,
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
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use Reason as R;
        match *self {
            R::TooFar { given, most } => {
                write!(
                    f,
                    "{TOO_FAR} {most} is the largest fence that this node accepts now; FENCE {given} is \
                     more than ten minutes ahead of its clock; compare the clocks of client and node"
                )
            }
            R::TooManyAhead { given, most } => {
                write!(
                    f,
                    "{TOO_FAR} {most} is the largest fence that this node accepts now from this user, which has \
                     too many keys with fences ahead of the node's clock; FENCE {given} is larger"
                )
            }
            R::OtherMode { held, asked } => write!(
                f,
                "OTHERMODE this token holds the lock {held} and now asks for it {asked}; release it \
                 first, or use a new token"
            ),
            R::TooManyHolders => {
                write!(
                    f,
                    "{TOO_MANY} holders: the lock has {MAX_HOLDERS} holders, the most there can be; try again after a release"
                )
            }
            R::WrongType => {
                f.write_str("WRONGTYPE Operation against a key holding the wrong kind of value")
            }
            R::TooManyWaiters => write!(
                f,
                "{TOO_MANY} waiters: this user can have {MAX_WAITERS} waiting requests on this node, and fewer \
                 while other users wait; try again later"
            ),
            R::TooManyLocks { most } => write!(
                f,
                "{TOO_MANY} locks: locks take all of the {most} bytes that this node has for them \
                 (dlock.max-memory-percent of maxmemory); try again when some have ended"
            ),
            // Clients read the number.
            R::TooLong { given, most } => write!(
                f,
                "{TOO_LONG} {most} ms is the longest lease that this node grants (dlock.max-ttl), and {given} ms \
                 is longer; ask for a shorter lease, and extend it before it ends"
            ),
            R::Final => write!(
                f,
                "FINAL this token was released with FINAL; use a new token for each acquisition"
            ),
            // Clients read the two numbers. Many hosts get this reply each night: it is short, and cheap.
            R::Done { left, fence } => {
                let mut digits = itoa::Buffer::new();
                f.write_str(DONE)?;
                f.write_str(" ")?;
                f.write_str(left.map_or("-1", |left| digits.format(left.0)))?;
                f.write_str(" ")?;
                f.write_str(itoa::Buffer::new().format(fence.0))?;
                f.write_str(" (see DLOCK.INSPECT)")
            }
            R::NotAlone => {
                write!(
                    f,
                    "ERR the option DONE needs an exclusive lock, granted without SHARED and LIMIT"
                )
            }
            R::TooManyDone => write!(
                f,
                "{TOO_MANY} done locks: this user can have {MAX_DONE} done locks on this node, and a long name or \
                 text counts for several; try again when some have expired"
            ),
            R::Quarantine { cause, left } => {
                write!(f, "QUARANTINE {} ms until grants resume: {cause}", left.0)
            }
            R::NotDurable => write!(
                f,
                "NOTDURABLE the state file cannot be written, and it does not cover this grant; \
                 state-file-error of DLOCK.NODE says why"
            ),
            R::Exhausted => {
                write!(f, "EXHAUSTED this node has granted the largest possible fence")
            }
        }
    }
}

/// The code for a lock that is done.
pub const DONE: &str = "DONE";

/// The code for a lease that is longer than `dlock.max-ttl`, which follows. The library recognises it.
pub const TOO_LONG: &str = "TOOLONG";

/// The code for a limit that is reached; the words after it name the limit.
pub const TOO_MANY: &str = "TOOMANY";

/// The code for a fence that is too far ahead. The library recognises it.
pub const TOO_FAR: &str = "TOOFAR";

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn a_proposal_too_far_ahead_has_a_code_of_its_own() {
        let text = Reason::TooFar { given: 9, most: 7 }.to_string();
        let whole = "TOOFAR 7 is the largest fence that this node accepts now; FENCE 9 is more \
                     than ten minutes ahead of its clock; compare the clocks of client and node";
        assert_eq!(text, whole);
    }

    #[test]
    fn what_a_client_may_want_to_tell_apart_has_a_code() {
        let (held, asked) = (Mode::Shared, Mode::Exclusive);
        for (reason, code) in [
            (Reason::OtherMode { held, asked }, "OTHERMODE"),
            (Reason::TooManyHolders, "TOOMANY"),
            (Reason::TooLong { given: 2, most: 1 }, "TOOLONG"),
        ] {
            assert_eq!(reason.to_string().split(' ').next(), Some(code), "{reason:?}");
        }
        let text = Reason::OtherMode { held, asked }.to_string();
        assert!(text.contains("SHARED") && text.contains("exclusively"), "{text}");
    }
}
