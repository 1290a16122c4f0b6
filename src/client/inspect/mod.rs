//! Who holds a lock and who waits for it, as a node sees it.

pub(crate) mod fields;

use std::time::Duration;

use redis::Value;

use fields::Fields;

/// What one node knows about a lock that is not free.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Inspection {
    /// `exclusive`, `shared`, `limit`, or `foreign`: a plain string of an older kind of lock.
    pub mode: String,
    /// The permits of a semaphore; 0 in the other modes.
    pub limit: u64,
    /// How many hold it. Nobody is known for a foreign lock.
    pub holding: u64,
    /// The first of them, oldest first.
    pub holders: Vec<HolderInfo>,
    /// When a foreign lock expires, if it does.
    pub expires: Option<Duration>,
    /// How many wait.
    pub waiting: u64,
    /// The first of them.
    pub waiters: Vec<WaiterInfo>,
}

/// A holder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HolderInfo {
    /// A name for its token that tells nothing of it; the same on every node.
    pub id: String,
    /// Its fence.
    pub fence: u64,
    /// How long its lease still runs.
    pub ttl: Duration,
    /// How long it has held.
    pub held: Duration,
    /// The connection's number in CLIENT LIST; none once it is closed.
    pub client: Option<u64>,
    /// Where that connection comes from. Only in [`Error::Held`](crate::Error::Held).
    pub address: Option<String>,
    /// What it said about itself.
    pub meta: String,
    /// Whether the lock ends with the connection.
    pub ephemeral: bool,
    /// Whether its turn came while it was away, and it has not asked since.
    pub away: bool,
}

/// One that waits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WaiterInfo {
    /// A name for its token that tells nothing of it; the same on every node.
    pub id: String,
    /// How it wants to hold.
    pub mode: String,
    /// How long it has waited.
    pub waited: Duration,
    /// How much longer it will wait; none: without limit.
    pub left: Option<Duration>,
    /// The connection's number in CLIENT LIST; none once it is closed.
    pub client: Option<u64>,
    /// What it said about itself.
    pub meta: String,
    /// Whether its request has ended, and only its place is kept.
    pub away: bool,
}

/// Reads the reply of DLOCK.INSPECT. A free lock is `None`.
pub(crate) fn read(reply: &Value) -> Option<Inspection> {
    let fields = Fields::of(reply)?;
    Some(Inspection {
        mode: fields.text("mode"),
        limit: fields.number("limit").unwrap_or(0),
        holding: fields.number("holding").unwrap_or(0),
        holders: fields.list("holders").filter_map(holder).collect(),
        expires: fields.millis("ttl-ms"),
        waiting: fields.number("waiting").unwrap_or(0),
        waiters: fields.list("waiters").filter_map(waiter).collect(),
    })
}

fn holder(value: &Value) -> Option<HolderInfo> {
    let fields = Fields::of(value)?;
    Some(HolderInfo {
        id: fields.text("id"),
        fence: fields.number("fence")?,
        ttl: fields.millis("ttl-ms")?,
        held: fields.millis("held-ms")?,
        client: fields.number("client"),
        address: None,
        meta: fields.text("meta"),
        ephemeral: fields.number("ephemeral") == Some(1),
        away: fields.number("away") == Some(1),
    })
}

fn waiter(value: &Value) -> Option<WaiterInfo> {
    let fields = Fields::of(value)?;
    Some(WaiterInfo {
        id: fields.text("id"),
        mode: fields.text("mode"),
        waited: fields.millis("waited-ms")?,
        left: fields.millis("left-ms"),
        client: fields.number("client"),
        meta: fields.text("meta"),
        away: fields.number("away") == Some(1),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    fn flat(pairs: &[(&str, Value)]) -> Value {
        Value::Array(pairs.iter().flat_map(|(key, value)| [bulk(key), value.clone()]).collect())
    }

    #[test]
    fn a_held_lock_is_read_from_either_protocol() {
        let holder = [
            ("id", bulk("4da10dd6")),
            ("fence", Value::Int(7)),
            ("ttl-ms", Value::Int(900)),
            ("held-ms", Value::Int(100)),
            ("client", Value::Nil),
            ("meta", bulk("host=a")),
            ("ephemeral", Value::Int(1)),
        ];
        let lock = [
            ("mode", bulk("exclusive")),
            ("limit", Value::Int(0)),
            ("holding", Value::Int(2)),
            ("holders", Value::Array(vec![flat(&holder)])),
            ("waiting", Value::Int(3)),
            ("waiters", Value::Array(vec![])),
        ];
        let map = Value::Map(lock.iter().map(|(key, value)| (bulk(key), value.clone())).collect());
        let found = read(&flat(&lock)).unwrap();
        assert_eq!(read(&map).as_ref(), Some(&found));
        assert_eq!((found.mode.as_str(), found.waiting), ("exclusive", 3));
        assert_eq!((found.holding, found.holders[0].id.as_str()), (2, "4da10dd6"));
        assert_eq!(found.holders[0].ttl, Duration::from_millis(900));
        assert!(found.holders[0].ephemeral && found.holders[0].client.is_none());
    }

    #[test]
    fn a_free_lock_has_nothing_to_tell() {
        assert_eq!(read(&Value::Nil), None);
    }
}
