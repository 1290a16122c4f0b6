//! What a node's reply means: to the rules of the quorum, and to a person.

use std::time::Duration;

use dlock_core::command::refusal::TOO_FAR;
use dlock_core::quorum::{Answer, Ask, Why};
use dlock_core::words::Fence;
use redis::{ErrorKind, RedisError, ServerError, Value};

use crate::report::{NodeError, NodeState};
use crate::tls;

/// Reads the reply to a request.
pub(crate) fn read(ask: &Ask, reply: Result<Value, NodeError>) -> (Answer, NodeState) {
    let value = match reply {
        Ok(value) => value,
        Err(error) => return refused(error),
    };
    match (ask, &value) {
        (Ask::Acquire { .. }, Value::Int(fence)) => {
            let fence = u64::try_from(*fence).unwrap_or(0);
            (Answer::Granted(Fence(fence)), NodeState::Granted(fence))
        }
        (Ask::Acquire { .. }, Value::Nil) => (Answer::Denied, NodeState::Held),
        (Ask::Extend { fence }, Value::Int(1)) => {
            let state = fence.map_or(NodeState::Answers, |fence| NodeState::Granted(fence.0));
            (Answer::Extended, state)
        }
        (Ask::Extend { .. }, Value::Int(0)) => (Answer::Gone, NodeState::Gone),
        (Ask::Release, Value::Int(_)) | (Ask::Ping, _) => (Answer::Done, NodeState::Answers),
        _ => {
            let text = format!("an answer that nobody expects: {value:?}");
            (Answer::Refused(Why::Never), NodeState::Refused(text))
        }
    }
}

/// What it means that there is no reply, or that it is an error.
fn refused(error: NodeError) -> (Answer, NodeState) {
    let answer = match &error {
        NodeError::Unreachable(_) => Answer::Unreachable,
        NodeError::TimedOut(_) => Answer::Silent,
        NodeError::Duplicate { .. } | NodeError::Unfit(_) => Answer::Refused(Why::Never),
        NodeError::Refused(text) if code(text) == TOO_FAR => Answer::TooFar,
        NodeError::Refused(text) => Answer::Refused(why(text)),
    };
    (answer, NodeState::from(error))
}

impl From<NodeError> for NodeState {
    fn from(error: NodeError) -> NodeState {
        match error {
            NodeError::Unreachable(why) => NodeState::Unreachable(why),
            NodeError::TimedOut(after) => NodeState::TimedOut(after),
            NodeError::Refused(text) => match quarantine(&text) {
                Some(left) => NodeState::Quarantine(left),
                None => NodeState::Refused(text),
            },
            NodeError::Unfit(text) => NodeState::Unfit(text),
            duplicate @ NodeError::Duplicate { .. } => NodeState::Refused(duplicate.to_string()),
        }
    }
}

/// Whether it makes sense to ask again later.
pub(crate) fn why(text: &str) -> Why {
    match code(text) {
        "QUARANTINE" => Why::Quarantine,
        "NOTDURABLE" | "OOM" | "LOADING" | "BUSY" | "MASTERDOWN" | "TOOMANYWAITERS"
        | "TOOMANYLOCKS" | "UNBLOCKED" | "CLUSTERDOWN" | "TRYAGAIN" | "MISCONF" | "NOREPLICAS" => {
            Why::Busy
        }
        _ if text.starts_with("ERR max number of clients") => Why::Busy,
        _ => Why::Never,
    }
}

/// For how much longer a node is in quarantine: `QUARANTINE …, N ms left`.
fn quarantine(text: &str) -> Option<Duration> {
    let left = (code(text) == "QUARANTINE").then(|| text.rsplit(", ").next())??;
    let millis = left.strip_suffix(" ms left").and_then(|millis| millis.parse().ok());
    Some(Duration::from_millis(millis.unwrap_or(0)))
}

/// The code with which a server's error begins.
pub(crate) fn code(text: &str) -> &str {
    text.split(' ').next().unwrap_or_default()
}

/// An error of the server, as a line that begins with its code.
pub(crate) fn server_error(error: &ServerError) -> NodeError {
    let line = match error.details() {
        Some(details) => format!("{} {details}", error.code()),
        None => error.code().to_owned(),
    };
    of_line(line)
}

/// An error of a connection, or of the server.
pub(crate) fn redis_error(error: &RedisError) -> NodeError {
    let details = error.detail().unwrap_or_default();
    match (error.kind(), error.code()) {
        (_, Some(code)) => of_line(format!("{code} {details}")),
        (ErrorKind::AuthenticationFailed, _) => {
            NodeError::Refused(format!("WRONGPASS user or password is not accepted: {details}"))
        }
        (ErrorKind::RESP3NotSupported, _) => {
            NodeError::Unfit("the server is too old: it knows no RESP3".to_owned())
        }
        (ErrorKind::Parse, _) => NodeError::Unreachable(NO_REDIS.to_owned()),
        _ => {
            let words = tls::explained(error).unwrap_or_else(|| plain(&error.to_string()));
            NodeError::Unreachable(words)
        }
    }
}

const NO_REDIS: &str = "what answers there does not speak Redis's protocol \
                        (is it a TLS port? then write rediss://)";

/// A server's error, with what to do where its own words do not say it.
fn of_line(line: String) -> NodeError {
    let unknown = line.starts_with("ERR unknown command");
    if unknown && line.to_ascii_uppercase().contains("DLOCK.") {
        return NodeError::Unfit(NO_MODULE.to_owned());
    }
    if code(&line) == "NOAUTH" {
        return NodeError::Refused(
            "NOAUTH a password is needed: redis://user:password@host".to_owned(),
        );
    }
    NodeError::Refused(line)
}

const NO_MODULE: &str = "the dlock module is not loaded (loadmodule /path/to/libdlock.so)";

/// The operating system's words without the number.
pub(crate) fn plain(text: &str) -> String {
    text.split(" (os error").next().unwrap_or(text).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ACQUIRE: Ask = Ask::Acquire { fence: None, wait: None };

    fn refusal(text: &str) -> (Answer, NodeState) {
        read(&ACQUIRE, Err(NodeError::Refused(text.to_owned())))
    }

    #[test]
    fn replies_mean_what_the_commands_promise() {
        assert_eq!(read(&ACQUIRE, Ok(Value::Int(7))).0, Answer::Granted(Fence(7)));
        assert_eq!(read(&ACQUIRE, Ok(Value::Nil)).0, Answer::Denied);
        let extend = Ask::Extend { fence: Some(Fence(9)) };
        assert_eq!(read(&extend, Ok(Value::Int(1))), (Answer::Extended, NodeState::Granted(9)));
        assert_eq!(read(&extend, Ok(Value::Int(0))), (Answer::Gone, NodeState::Gone));
        assert_eq!(read(&Ask::Release, Ok(Value::Int(0))).0, Answer::Done);
        assert_eq!(read(&Ask::Ping, Ok(Value::Int(0))).0, Answer::Done);
        assert_eq!(read(&ACQUIRE, Ok(Value::Okay)).0, Answer::Refused(Why::Never));
    }

    #[test]
    fn no_reply_is_no_refusal() {
        let read = |error| read(&ACQUIRE, Err(error)).0;
        assert_eq!(read(NodeError::Unreachable(String::new())), Answer::Unreachable);
        assert_eq!(read(NodeError::TimedOut(Duration::ZERO)), Answer::Silent);
    }

    #[test]
    fn a_quarantine_says_how_long() {
        let (answer, state) = refusal("QUARANTINE the last life ended badly, 29516 ms left");
        assert_eq!(answer, Answer::Refused(Why::Quarantine));
        assert_eq!(state, NodeState::Quarantine(Duration::from_millis(29_516)));
    }

    #[test]
    fn what_may_pass_is_told_from_what_will_not() {
        for text in ["OOM command not allowed", "LOADING Redis is", "NOTDURABLE", "UNBLOCKED the"] {
            assert_eq!(refusal(text).0, Answer::Refused(Why::Busy), "{text}");
        }
        for text in ["WRONGTYPE Operation", "NOPERM this user", "READONLY this node", "ERR ttl-ms"]
        {
            assert_eq!(refusal(text).0, Answer::Refused(Why::Never), "{text}");
        }
        let far =
            "TOOFAR FENCE 9 is more than ten minutes ahead of this node, which accepts up to 1";
        assert_eq!(refusal(far).0, Answer::TooFar);
        assert_eq!(refusal(&format!("ERR {far}")).0, Answer::Refused(Why::Never));
    }

    #[test]
    fn a_server_without_the_module_is_told_so() {
        let unknown = of_line("ERR unknown command 'DLOCK.ACQUIRE', with args".to_owned());
        assert_eq!(unknown, NodeError::Unfit(NO_MODULE.to_owned()));
        let line = "ERR unknown command 'FOO'".to_owned();
        assert_eq!(of_line(line.clone()), NodeError::Refused(line));
        assert_eq!(plain("Connection refused (os error 111)"), "Connection refused");
    }
}
