//! A lock's holders and waiters, as a node sees them. [`fields`]: replies that are maps.

mod fields;

use std::time::Duration;

use redis::Value;

pub use fields::Fields;

/// One node's report about a lock that is not free.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Inspection {
    /// `exclusive`, `shared`, `limit`, `done`, `evicted`, or `foreign`: a plain string of an older kind of lock.
    pub mode: String,
    /// The permits of a semaphore; 0 in the other modes.
    pub limit: u64,
    /// Number of holders. A foreign lock names none.
    pub holding: u64,
    /// First holders, in the order of their tokens.
    pub holders: Vec<HolderInfo>,
    /// Time until a foreign lock expires, a done lock is free again, or the key of an evicted lock opens.
    pub expires: Option<Duration>,
    /// The holder that has left the lock done.
    pub done: Option<DoneInfo>,
    /// Number of waiters.
    pub waiting: u64,
    /// First waiters.
    pub waiters: Vec<WaiterInfo>,
}

/// A holder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HolderInfo {
    /// Public name of the token, the same on every node. It does not reveal the token.
    pub id: String,
    /// The token; only in the reply to DLOCK.TOKENS.
    pub token: Option<Vec<u8>>,
    /// The holder's fence.
    pub fence: u64,
    /// Time until the lease ends.
    pub ttl: Duration,
    /// Time since the lock was granted.
    pub held: Duration,
    /// Number of the connection in CLIENT LIST; none once it is closed.
    pub client: Option<u64>,
    /// Address of that connection. Only in [`Error::Held`](crate::Error::Held).
    pub address: Option<String>,
    /// The holder's text about itself: any bytes, and mostly text.
    pub meta: Vec<u8>,
    /// True if the lock ends with the connection.
    pub ephemeral: bool,
    /// True if the lock was granted to its reserved place, and it has not asked since.
    pub away: bool,
}

/// A holder that has left its lock done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DoneInfo {
    /// Public name of its token.
    pub id: String,
    /// The fence of its claim.
    pub fence: u64,
    /// Time since it left the lock done.
    pub since: Duration,
    /// Its text about the outcome: any bytes, and mostly text.
    pub outcome: Vec<u8>,
}

/// A waiter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WaiterInfo {
    /// Public name of the token, the same on every node. It does not reveal the token.
    pub id: String,
    /// The token; only in the reply to DLOCK.TOKENS.
    pub token: Option<Vec<u8>>,
    /// Requested mode.
    pub mode: String,
    /// Time since it began to wait.
    pub waited: Duration,
    /// Time until it gives up; none: it waits without limit.
    pub left: Option<Duration>,
    /// Number of the connection in CLIENT LIST; none once it is closed.
    pub client: Option<u64>,
    /// The waiter's text about itself: any bytes, and mostly text.
    pub meta: Vec<u8>,
    /// True if its request has ended, and its place is reserved.
    pub away: bool,
}

/// A reply to DLOCK.INSPECT that cannot be understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("its answer to DLOCK.INSPECT cannot be understood")]
pub struct UnexpectedReply;

impl Inspection {
    /// Reads the reply to DLOCK.INSPECT, or to DLOCK.TOKENS. `None`: the lock is free.
    ///
    /// # Errors
    /// Fails when the reply has another form.
    pub(crate) fn read(reply: &Value) -> Result<Option<Inspection>, UnexpectedReply> {
        match reply {
            Value::Nil => Ok(None),
            reply => Inspection::of(reply).map(Some).ok_or(UnexpectedReply),
        }
    }

    /// True if the lock has a holder; waiters alone do not count.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.is_foreign() || !self.holders.is_empty()
    }

    /// True if the lock is a plain string, which a client of an older kind of lock has set.
    #[must_use]
    pub fn is_foreign(&self) -> bool {
        self.mode == "foreign"
    }

    /// True if the lock was evicted: it has no holder, and is not granted yet.
    #[must_use]
    pub fn is_evicted(&self) -> bool {
        self.mode == "evicted"
    }

    fn of(reply: &Value) -> Option<Inspection> {
        let fields = Fields::of(reply)?;
        Some(Inspection {
            mode: fields.text("mode")?,
            limit: fields.number("limit").unwrap_or(0),
            holding: fields.number("holding")?,
            holders: fields.list("holders")?.iter().map(HolderInfo::of).collect::<Option<_>>()?,
            expires: fields.millis("ttl-ms"),
            done: DoneInfo::of(&fields),
            waiting: fields.number("waiting")?,
            waiters: fields.list("waiters")?.iter().map(WaiterInfo::of).collect::<Option<_>>()?,
        })
    }
}

impl DoneInfo {
    /// Reads the fields that only a done lock has.
    fn of(fields: &Fields) -> Option<DoneInfo> {
        Some(DoneInfo {
            since: fields.millis("done-ms")?,
            id: fields.text("id")?,
            fence: fields.number("fence")?,
            outcome: fields.bytes("meta").unwrap_or_default(),
        })
    }
}

impl HolderInfo {
    fn of(reply: &Value) -> Option<HolderInfo> {
        let fields = Fields::of(reply)?;
        Some(HolderInfo {
            id: fields.text("id")?,
            token: fields.bytes("token"),
            fence: fields.number("fence")?,
            ttl: fields.millis("ttl-ms")?,
            held: fields.millis("held-ms")?,
            client: fields.number("client"),
            address: None,
            meta: fields.bytes("meta").unwrap_or_default(),
            ephemeral: fields.number("ephemeral") == Some(1),
            away: fields.number("away") == Some(1),
        })
    }
}

impl WaiterInfo {
    fn of(reply: &Value) -> Option<WaiterInfo> {
        let fields = Fields::of(reply)?;
        Some(WaiterInfo {
            id: fields.text("id")?,
            token: fields.bytes("token"),
            mode: fields.text("mode")?,
            waited: fields.millis("waited-ms")?,
            left: fields.millis("left-ms"),
            client: fields.number("client"),
            meta: fields.bytes("meta").unwrap_or_default(),
            away: fields.number("away") == Some(1),
        })
    }
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
            ("meta", Value::BulkString(b"host=a\xff".to_vec())),
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
        let found = Inspection::read(&flat(&lock)).unwrap().unwrap();
        assert_eq!(Inspection::read(&map), Ok(Some(found.clone())));
        assert_eq!((found.mode.as_str(), found.waiting), ("exclusive", 3));
        assert_eq!((found.holding, found.holders[0].id.as_str()), (2, "4da10dd6"));
        assert_eq!(found.holders[0].ttl, Duration::from_millis(900));
        assert_eq!(found.holders[0].meta, b"host=a\xff");
        assert!(found.holders[0].ephemeral && found.holders[0].client.is_none());
    }

    #[test]
    fn a_free_lock_is_told_from_an_answer_that_is_none() {
        assert_eq!(Inspection::read(&Value::Nil), Ok(None));
        for nonsense in [Value::Okay, Value::Array(vec![]), flat(&[("mode", bulk("shared"))])] {
            assert_eq!(Inspection::read(&nonsense), Err(UnexpectedReply), "{nonsense:?}");
        }
    }
}
