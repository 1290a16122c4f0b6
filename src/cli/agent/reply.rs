//! Replies, in both versions of the protocol.

use std::borrow::Cow;

use redis::Value;

/// The answer to a request.
pub struct Answer {
    /// One reply; SUBSCRIBE and the like have several.
    pub replies: Vec<Reply>,
    /// True if the connection ends after it.
    pub ends: bool,
}

impl From<Reply> for Answer {
    fn from(reply: Reply) -> Answer {
        Answer { replies: vec![reply], ends: false }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    Null,
    Int(i64),
    Status(Cow<'static, str>),
    /// An error, which begins with its code.
    Error(String),
    Bulk(Vec<u8>),
    Array(Vec<Reply>),
    Map(Vec<(Reply, Reply)>),
    /// A message that no request asked for.
    Push(Vec<Reply>),
}

/// The version of the protocol that a connection speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Resp2,
    Resp3,
}

impl Reply {
    pub const OK: Reply = Reply::Status(Cow::Borrowed("OK"));

    pub fn status(text: &'static str) -> Reply {
        Reply::Status(Cow::Borrowed(text))
    }

    pub fn text(text: impl AsRef<[u8]>) -> Reply {
        Reply::Bulk(text.as_ref().to_vec())
    }

    pub fn error(text: impl ToString) -> Reply {
        Reply::Error(text.to_string())
    }

    pub fn number(number: u64) -> Reply {
        Reply::Int(i64::try_from(number).unwrap_or(i64::MAX))
    }

    /// Appends its bytes.
    pub fn write(&self, protocol: Protocol, out: &mut Vec<u8>) {
        let is_new = protocol == Protocol::Resp3;
        match self {
            Reply::Null if is_new => out.extend_from_slice(b"_\r\n"),
            Reply::Null => out.extend_from_slice(b"$-1\r\n"),
            Reply::Int(number) => line(out, b':', number.to_string().as_bytes()),
            Reply::Status(text) => line(out, b'+', text.as_bytes()),
            Reply::Error(text) => line(out, b'-', text.as_bytes()),
            Reply::Bulk(bytes) => {
                line(out, b'$', bytes.len().to_string().as_bytes());
                out.extend_from_slice(bytes);
                out.extend_from_slice(b"\r\n");
            }
            Reply::Array(items) => list(out, b'*', items, protocol),
            Reply::Push(items) => list(out, if is_new { b'>' } else { b'*' }, items, protocol),
            Reply::Map(pairs) => {
                let (sign, each) = if is_new { (b'%', 1) } else { (b'*', 2) };
                line(out, sign, (pairs.len() * each).to_string().as_bytes());
                for (name, value) in pairs {
                    name.write(protocol, out);
                    value.write(protocol, out);
                }
            }
        }
    }
}

/// A map of texts and replies.
pub fn map<const N: usize>(fields: [(&str, Reply); N]) -> Reply {
    Reply::Map(fields.into_iter().map(|(name, value)| (Reply::text(name), value)).collect())
}

/// The reply of a node, to be passed on.
impl From<Value> for Reply {
    fn from(value: Value) -> Reply {
        let all = |items: Vec<Value>| items.into_iter().map(Reply::from).collect();
        match value {
            Value::Nil => Reply::Null,
            Value::Int(number) => Reply::Int(number),
            Value::Okay => Reply::OK,
            Value::SimpleString(text) => Reply::Status(text.into()),
            Value::BulkString(bytes) => Reply::Bulk(bytes),
            Value::VerbatimString { text, .. } => Reply::Bulk(text.into_bytes()),
            Value::Array(items) | Value::Set(items) => Reply::Array(all(items)),
            Value::Map(pairs) => {
                let pairs = pairs.into_iter().map(|(name, value)| (name.into(), value.into()));
                Reply::Map(pairs.collect())
            }
            other => Reply::error(format_args!("ERR a node sent an unexpected reply: {other:?}")),
        }
    }
}

/// Bytes between a sign and the end of the line. A text that would end the line is kept on it.
fn line(out: &mut Vec<u8>, sign: u8, bytes: &[u8]) {
    out.push(sign);
    let on_one = bytes.iter().map(|byte| if b"\r\n".contains(byte) { b' ' } else { *byte });
    out.extend(on_one);
    out.extend_from_slice(b"\r\n");
}

fn list(out: &mut Vec<u8>, sign: u8, items: &[Reply], protocol: Protocol) {
    line(out, sign, items.len().to_string().as_bytes());
    items.iter().for_each(|item| item.write(protocol, out));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(reply: &Reply, protocol: Protocol) -> String {
        let mut out = Vec::new();
        reply.write(protocol, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn both_protocols_have_the_same_replies() {
        let reply = map([("n", Reply::Int(-1)), ("none", Reply::Null)]);
        assert_eq!(
            written(&reply, Protocol::Resp2),
            "*4\r\n$1\r\nn\r\n:-1\r\n$4\r\nnone\r\n$-1\r\n"
        );
        assert_eq!(written(&reply, Protocol::Resp3), "%2\r\n$1\r\nn\r\n:-1\r\n$4\r\nnone\r\n_\r\n");
        let push = Reply::Push(vec![Reply::OK]);
        assert_eq!(written(&push, Protocol::Resp2), "*1\r\n+OK\r\n");
        assert_eq!(written(&push, Protocol::Resp3), ">1\r\n+OK\r\n");
    }

    #[test]
    fn an_error_stays_on_its_line() {
        let reply = Reply::error("ERR a\r\n+OK");
        assert_eq!(written(&reply, Protocol::Resp2), "-ERR a  +OK\r\n");
    }
}
