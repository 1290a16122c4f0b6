//! The fields of a reply that is a map.

use std::time::Duration;

use redis::Value;

/// A map of a reply: a map in RESP3, and a flat list in RESP2 or behind a proxy.
pub(crate) struct Fields<'a>(Vec<(&'a Value, &'a Value)>);

impl<'a> Fields<'a> {
    pub(crate) fn of(value: &'a Value) -> Option<Fields<'a>> {
        value.as_map_iter().map(|pairs| Fields(pairs.collect()))
    }

    fn get(&self, name: &str) -> Option<&'a Value> {
        let named = |key: &Value| text(key).is_some_and(|key| key == name);
        self.0.iter().find(|(key, _)| named(key)).map(|(_, value)| *value)
    }

    /// Text; empty if it is not there.
    pub(crate) fn text(&self, name: &str) -> String {
        self.get(name).and_then(text).unwrap_or_default()
    }

    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        match self.get(name)? {
            Value::Int(number) => u64::try_from(*number).ok(),
            _ => None,
        }
    }

    pub(crate) fn millis(&self, name: &str) -> Option<Duration> {
        self.number(name).map(Duration::from_millis)
    }

    pub(crate) fn list(&self, name: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
        match self.get(name) {
            Some(Value::Array(items)) => items.iter(),
            _ => [].iter(),
        }
    }
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::BulkString(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => Some(text.clone()),
        Value::Okay => Some("OK".to_owned()),
        _ => None,
    }
}
