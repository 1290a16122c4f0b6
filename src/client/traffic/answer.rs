//! The meaning of a node's reply, for the quorum's rules and for reports.

use std::time::Duration;

use dlock_core::limits::{MAX_DONE_FOR, MAX_FENCE};
use dlock_core::quorum::{Answer, Ask, DoneRecord, Obstacle};
use dlock_core::reason::TOO_FAR;
use dlock_core::words::{Fence, Millis};
use redis::Value;

use crate::printable::brief;
use crate::report::code::{code, longest, why};
use crate::report::{NodeError, NodeState};

/// Reads the reply to a request.
pub(crate) fn read(ask: &Ask, reply: Result<Value, NodeError>) -> (Answer, NodeState) {
    let value = match reply {
        Ok(value) => value,
        Err(NodeError::Refused(text)) if let Some(top) = turn(&text) => {
            return (Answer::Turn(top), NodeState::Held);
        }
        Err(NodeError::Refused(text)) if let Some(record) = record(&text) => {
            let left = Duration::from_millis(record.left.0);
            return (Answer::Done(record), NodeState::Done(left));
        }
        Err(error) => return refused(error),
    };
    match (ask, &value) {
        (Ask::Acquire { .. }, Value::Int(fence)) if (1..=MAX_FENCE as i64).contains(fence) => {
            let fence = fence.unsigned_abs();
            (Answer::Granted(Fence(fence)), NodeState::Granted(fence))
        }
        (Ask::Acquire { .. }, Value::Nil) => (Answer::Denied, NodeState::Held),
        (Ask::Extend { fence }, Value::Int(1)) => (Answer::Extended, NodeState::Granted(fence.0)),
        (Ask::Finish { length, .. }, Value::Int(1)) => {
            (Answer::Finished, NodeState::Done(Duration::from_millis(length.0)))
        }
        (Ask::Extend { .. } | Ask::Finish { .. }, Value::Int(0)) => (Answer::Gone, NodeState::Gone),
        (Ask::Release, Value::Int(_)) | (Ask::Ping, _) => (Answer::Answered, NodeState::Answers),
        _ => {
            let text = format!("an unexpected reply: {}", brief(format_args!("{value:?}")));
            (Answer::Refused(Obstacle::Never), NodeState::Refused(text))
        }
    }
}

/// Reads the error that announces a waiter's turn: `TURN fence …`.
fn turn(text: &str) -> Option<Fence> {
    let fence = text.strip_prefix("TURN ")?.split(' ').next()?;
    fence.parse().ok().map(Fence)
}

/// Reads the error of a lock that is done: `DONE left fence …`. A negative time left has no end.
fn record(text: &str) -> Option<DoneRecord> {
    let mut words = text.strip_prefix("DONE ")?.split(' ');
    let left: i64 = words.next()?.parse().ok()?;
    let fence = words.next()?.parse().ok()?;
    let left = u64::try_from(left).unwrap_or(MAX_DONE_FOR);
    Some(DoneRecord { fence: Fence(fence), left: Millis(left) })
}

/// The meaning of an error, or of a missing reply.
fn refused(error: NodeError) -> (Answer, NodeState) {
    let answer = match &error {
        // A waiter goes on waiting while the node is in this state.
        NodeError::Unreachable(_) | NodeError::Lapsed(_) => Answer::Unreachable,
        NodeError::TimedOut(_) => Answer::Silent,
        NodeError::Duplicate { .. } | NodeError::Unfit(_) => Answer::Refused(Obstacle::Never),
        NodeError::Refused(text) if code(text) == TOO_FAR => Answer::TooFar,
        NodeError::Refused(text) if let Some(limit) = longest(text) => {
            Answer::TooLong(Millis(limit))
        }
        // An older request of this client arrived late, and waits in place of this one, without a
        // reader.
        NodeError::Refused(text) if code(text) == REPLACED => Answer::Unreachable,
        NodeError::Refused(text) => Answer::Refused(why(text)),
    };
    (answer, NodeState::from(error))
}

const REPLACED: &str = "REPLACED";

#[cfg(test)]
mod tests {
    use dlock_core::reason::Reason;

    use super::*;

    const ACQUIRE: Ask = Ask::Acquire { fence: None, wait: None };

    fn refusal(text: &str) -> (Answer, NodeState) {
        read(&ACQUIRE, Err(NodeError::Refused(text.to_owned())))
    }

    #[test]
    fn replies_mean_what_the_commands_promise() {
        assert_eq!(read(&ACQUIRE, Ok(Value::Int(7))).0, Answer::Granted(Fence(7)));
        assert_eq!(read(&ACQUIRE, Ok(Value::Nil)).0, Answer::Denied);
        let extend = Ask::Extend { fence: Fence(9) };
        assert_eq!(read(&extend, Ok(Value::Int(1))), (Answer::Extended, NodeState::Granted(9)));
        assert_eq!(read(&extend, Ok(Value::Int(0))), (Answer::Gone, NodeState::Gone));
        assert_eq!(read(&Ask::Release, Ok(Value::Int(0))).0, Answer::Answered);
        assert_eq!(read(&Ask::Ping, Ok(Value::Int(0))).0, Answer::Answered);
        for no_fence in [Value::Okay, Value::Int(0), Value::Int(-7), Value::Int(i64::MAX)] {
            let (answer, state) = read(&ACQUIRE, Ok(no_fence));
            assert_eq!(answer, Answer::Refused(Obstacle::Never), "{state}");
        }
    }

    #[test]
    fn no_reply_is_no_refusal() {
        let read = |error| read(&ACQUIRE, Err(error)).0;
        assert_eq!(read(NodeError::Unreachable(String::new())), Answer::Unreachable);
        assert_eq!(read(NodeError::TimedOut(Duration::ZERO)), Answer::Silent);
    }

    #[test]
    fn a_request_that_an_older_one_replaced_is_asked_again() {
        assert_eq!(refusal("REPLACED this token asked again").0, Answer::Unreachable);
    }

    #[test]
    fn a_turn_is_no_grant() {
        let (answer, state) = refusal("TURN 17 is the largest fence of the key so far; this");
        assert_eq!((answer, state), (Answer::Turn(Fence(17)), NodeState::Held));
    }

    #[test]
    fn a_quarantine_says_how_long() {
        let (answer, state) = refusal("QUARANTINE 29516 ms until grants resume: a crash");
        assert_eq!(answer, Answer::Refused(Obstacle::Quarantine(Millis(29_516))));
        assert_eq!(state, NodeState::Quarantine(Duration::from_millis(29_516)));
    }

    #[test]
    fn what_may_pass_is_told_from_what_will_not() {
        for text in ["OOM command not allowed", "LOADING Redis is", "TOOMANY holders: a lock can"] {
            assert_eq!(refusal(text).0, Answer::Refused(Obstacle::Busy), "{text}");
        }
        let disk = "NOTDURABLE the state file";
        assert_eq!(refusal(disk).0, Answer::Refused(Obstacle::NotDurable));
        let long = Reason::TooLong { given: 3_600_000, most: 600_000 }.to_string();
        assert_eq!(refusal(&long).0, Answer::TooLong(Millis(600_000)));
        for text in
            ["WRONGTYPE Operation", "NOPERM this user", "READONLY this node", "TOOMANY done locks"]
        {
            assert_eq!(refusal(text).0, Answer::Refused(Obstacle::Never), "{text}");
        }
        let far = "TOOFAR 1 is the largest fence that this node accepts now; FENCE 9 is too far";
        let (answer, state) = refusal(far);
        assert_eq!(answer, Answer::TooFar);
        assert!(!state.refuses_for_good(), "the node's clock goes on");
        assert_eq!(refusal(&format!("ERR {far}")).0, Answer::Refused(Obstacle::Never));
    }
}
