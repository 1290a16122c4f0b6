//! What DLOCK.INSPECT, or DLOCK.TOKENS, says of a key on one node.

use redis::Value;

use crate::ask::Trouble;

/// A lock that is held or waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspection {
    /// `exclusive`, `shared`, `limit`, or `foreign` for a plain string.
    pub mode: String,
    /// How many may hold it, in the mode `limit`.
    pub limit: i64,
    /// When a plain string expires, if it does.
    pub ttl_ms: Option<i64>,
    /// How many hold it; not all of them need be listed.
    pub holding: i64,
    pub holders: Vec<Holder>,
    /// How many wait; not all of them need be listed.
    pub waiting: i64,
    pub waiters: Vec<Waiter>,
}

/// One who holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// A name for its token that tells nothing of it; the same on every node.
    pub id: String,
    /// Only if it was asked for.
    pub token: Option<Vec<u8>>,
    pub fence: i64,
    pub ttl_ms: i64,
    pub held_ms: i64,
    pub client: Option<i64>,
    pub meta: Vec<u8>,
    pub ephemeral: bool,
    /// Its turn came while it was away, and it has not asked since.
    pub away: bool,
}

/// One who waits for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiter {
    /// As a holder's.
    pub id: String,
    /// As a holder's.
    pub token: Option<Vec<u8>>,
    pub mode: String,
    pub waited_ms: i64,
    /// `None`: without limit.
    pub left_ms: Option<i64>,
    pub client: Option<i64>,
    pub meta: Vec<u8>,
    /// Its request has ended, and only its place is kept.
    pub away: bool,
}

impl Inspection {
    /// Reads the answer. `None`: the lock is free.
    pub fn read(answer: &Value) -> Result<Option<Inspection>, Trouble> {
        match answer {
            Value::Nil => Ok(None),
            Value::ServerError(error) => Err(Trouble::said(error)),
            answer => Inspection::of(answer).map(Some).ok_or_else(|| UNEXPECTED.into()),
        }
    }

    /// Whether somebody holds it, and does not only wait.
    pub fn is_held(&self) -> bool {
        self.is_foreign() || !self.holders.is_empty()
    }

    /// Whether it is a plain string, which an older client has set.
    pub fn is_foreign(&self) -> bool {
        self.mode == "foreign"
    }

    /// When the first of its leases ends, unless it is prolonged.
    pub fn least_ttl(&self) -> Option<i64> {
        self.holders.iter().map(|holder| holder.ttl_ms).chain(self.ttl_ms).min()
    }

    fn of(answer: &Value) -> Option<Inspection> {
        Some(Inspection {
            mode: text(at(answer, "mode")?)?,
            limit: number(at(answer, "limit")?)?,
            ttl_ms: at(answer, "ttl-ms").and_then(number),
            holding: number(at(answer, "holding")?)?,
            holders: list(at(answer, "holders")?)?.map(Holder::of).collect::<Option<_>>()?,
            waiting: number(at(answer, "waiting")?)?,
            waiters: list(at(answer, "waiters")?)?.map(Waiter::of).collect::<Option<_>>()?,
        })
    }
}

impl Holder {
    fn of(answer: &Value) -> Option<Holder> {
        Some(Holder {
            id: text(at(answer, "id")?)?,
            token: at(answer, "token").and_then(bytes),
            fence: number(at(answer, "fence")?)?,
            ttl_ms: number(at(answer, "ttl-ms")?)?,
            held_ms: number(at(answer, "held-ms")?)?,
            client: number(at(answer, "client")?),
            meta: bytes(at(answer, "meta")?)?,
            ephemeral: number(at(answer, "ephemeral")?)? != 0,
            away: number(at(answer, "away")?)? != 0,
        })
    }
}

impl Waiter {
    fn of(answer: &Value) -> Option<Waiter> {
        Some(Waiter {
            id: text(at(answer, "id")?)?,
            token: at(answer, "token").and_then(bytes),
            mode: text(at(answer, "mode")?)?,
            waited_ms: number(at(answer, "waited-ms")?)?,
            left_ms: number(at(answer, "left-ms")?),
            client: number(at(answer, "client")?),
            meta: bytes(at(answer, "meta")?)?,
            away: number(at(answer, "away")?)? != 0,
        })
    }
}

/// A field of a map, which RESP2 flattens to a list.
fn at<'a>(map: &'a Value, name: &str) -> Option<&'a Value> {
    let mut pairs = map.as_map_iter()?;
    pairs.find(|(key, _)| bytes(key).as_deref() == Some(name.as_bytes())).map(|(_, value)| value)
}

fn list(value: &Value) -> Option<impl Iterator<Item = &Value>> {
    value.as_sequence().map(|items| items.iter())
}

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

/// A number.
pub fn number(value: &Value) -> Option<i64> {
    match value {
        Value::Int(number) => Some(*number),
        _ => None,
    }
}

const UNEXPECTED: &str = "it answers DLOCK.INSPECT with something else than expected";
