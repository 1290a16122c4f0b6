//! Strings of a reply.

use redis::Value;

/// The bytes of a string.
pub fn bytes(value: &Value) -> Option<Vec<u8>> {
    match value {
        Value::BulkString(bytes) => Some(bytes.clone()),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => Some(text.clone().into()),
        Value::Okay => Some(b"OK".to_vec()),
        _ => None,
    }
}

/// A string as text.
pub fn text(value: &Value) -> Option<String> {
    bytes(value).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}
