//! The fields of a reply that is a map.

use std::time::Duration;

use redis::Value;

/// The fields of a reply to DLOCK.NODE, DLOCK.INSPECT and the like: a map in RESP3, and a flat list in
/// RESP2 or behind a proxy.
#[derive(Clone, Debug)]
pub struct Fields<'a>(Vec<(&'a Value, &'a Value)>);

impl<'a> Fields<'a> {
    /// Returns the fields, if the reply is a map.
    #[must_use]
    pub fn of(reply: &'a Value) -> Option<Fields<'a>> {
        reply.as_map_iter().map(|pairs| Fields(pairs.collect()))
    }

    /// Returns the field of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&'a Value> {
        let named = |key: &Value| bytes(key).is_some_and(|key| key == name.as_bytes());
        self.0.iter().find(|(key, _)| named(key)).map(|(_, value)| *value)
    }

    /// Returns a string.
    #[must_use]
    pub fn bytes(&self, name: &str) -> Option<Vec<u8>> {
        self.get(name).and_then(bytes).map(<[u8]>::to_vec)
    }

    /// Returns a string as text; bytes that are not UTF-8 are replaced.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<String> {
        self.get(name).and_then(bytes).map(|bytes| String::from_utf8_lossy(bytes).into_owned())
    }

    /// Returns a number that is not negative.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<u64> {
        match self.get(name)? {
            Value::Int(number) => u64::try_from(*number).ok(),
            _ => None,
        }
    }

    /// Returns a number of milliseconds.
    #[must_use]
    pub fn millis(&self, name: &str) -> Option<Duration> {
        self.number(name).map(Duration::from_millis)
    }

    /// Returns a list.
    #[must_use]
    pub fn list(&self, name: &str) -> Option<&'a [Value]> {
        self.get(name)?.as_sequence()
    }
}

fn bytes(value: &Value) -> Option<&[u8]> {
    match value {
        Value::BulkString(bytes) => Some(bytes),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => Some(text.as_bytes()),
        Value::Okay => Some(b"OK"),
        _ => None,
    }
}
