//! Values for another language: what the library reports, as a tree. Each language turns its records into named
//! tuples or objects, and writes lengths of time in its own unit.

use std::time::Duration;

use dlock_client::{
    DoneInfo, HolderInfo, Inspection, Key, Lease, NodeError, Notice, Report, WaiterInfo,
};

/// A value for another language.
#[derive(Clone, Debug)]
pub enum Value {
    /// No value.
    Nothing,
    /// True or false.
    Flag(bool),
    /// A number that is not negative.
    Number(u64),
    /// A length of time.
    Span(Duration),
    /// Bytes that are mostly text.
    Bytes(Vec<u8>),
    /// Records of one kind.
    List(Vec<Record>),
    /// A record.
    Record(Record),
}

/// Fields with names. A field that is missing has no value.
#[derive(Clone, Debug)]
pub struct Record {
    /// Name of its kind; empty where the names of the fields are data.
    pub kind: &'static str,
    /// Its fields, by the names that they have in Python.
    pub fields: Fields,
}

/// Names and values.
pub type Fields = Vec<(&'static str, Value)>;

/// Each node's report about a lock, or its error.
type Answers = Vec<(String, Result<Option<Inspection>, NodeError>)>;

impl Record {
    fn new<const N: usize>(kind: &'static str, fields: [(&'static str, Value); N]) -> Record {
        Record { kind, fields: fields.into() }
    }
}

impl From<&Report> for Record {
    fn from(Report { node, state }: &Report) -> Record {
        let (name, message) = (state.name().into(), state.to_string().into());
        Record::new(
            "NodeReport",
            [("node", node.as_str().into()), ("state", name), ("message", message)],
        )
    }
}

impl From<&HolderInfo> for Record {
    fn from(holder: &HolderInfo) -> Record {
        Record::new(
            "Holder",
            [
                ("fence", holder.fence.into()),
                ("held", holder.held.into()),
                ("ttl", holder.ttl.into()),
                ("address", holder.address.as_deref().into()),
                ("client", holder.client.into()),
                ("meta", holder.meta.clone().into()),
                ("id", holder.id.as_str().into()),
                ("ephemeral", holder.ephemeral.into()),
                ("away", holder.away.into()),
            ],
        )
    }
}

impl From<&WaiterInfo> for Record {
    fn from(waiter: &WaiterInfo) -> Record {
        Record::new(
            "Waiter",
            [
                ("id", waiter.id.as_str().into()),
                ("mode", waiter.mode.as_str().into()),
                ("waited", waiter.waited.into()),
                ("left", waiter.left.into()),
                ("client", waiter.client.into()),
                ("meta", waiter.meta.clone().into()),
                ("away", waiter.away.into()),
            ],
        )
    }
}

impl From<&DoneInfo> for Record {
    fn from(done: &DoneInfo) -> Record {
        Record::new(
            "Done",
            [
                ("id", done.id.as_str().into()),
                ("fence", done.fence.into()),
                ("since", done.since.into()),
                ("outcome", done.outcome.clone().into()),
            ],
        )
    }
}

impl From<&Inspection> for Record {
    fn from(lock: &Inspection) -> Record {
        Record::new(
            "Inspection",
            [
                ("mode", lock.mode.as_str().into()),
                ("limit", lock.limit.into()),
                ("holding", lock.holding.into()),
                ("holders", list(&lock.holders)),
                ("expires", lock.expires.into()),
                ("done", lock.done.as_ref().map(Record::from).into()),
                ("waiting", lock.waiting.into()),
                ("waiters", list(&lock.waiters)),
            ],
        )
    }
}

impl From<&Notice> for Record {
    fn from(notice: &Notice) -> Record {
        let common = [("event", notice.name().into()), ("message", notice.to_string().into())];
        let mut fields = Fields::from(common);
        match notice {
            Notice::Stranger { node, before, now } => {
                fields.extend([
                    ("node", node.as_str().into()),
                    ("before", before.as_str().into()),
                    ("now", now.as_str().into()),
                ]);
            }
            Notice::Promoted { node, server, quarantine } => {
                let quarantine = (*quarantine).into();
                fields.extend([
                    ("node", node.as_str().into()),
                    ("server", server.as_str().into()),
                    ("quarantine", quarantine),
                ]);
            }
            Notice::Outage { key, needed, nodes } => {
                let needed = (*needed).into();
                fields.extend([("key", key.into()), ("needed", needed), ("nodes", list(nodes))]);
            }
            Notice::NotReleased { key, needed, of, left, within } => {
                fields.extend([("key", key.into()), ("needed", (*needed).into())]);
                fields.extend([("of", (*of).into()), ("left", list(left))]);
                fields.push(("within", (*within).into()));
            }
            Notice::Back { key } => fields.push(("key", key.into())),
            _ => {}
        }
        Record { kind: "Notice", fields }
    }
}

impl From<Lease> for Value {
    fn from(Lease { key, token, fence, valid_for, .. }: Lease) -> Value {
        let token = token.as_str().into();
        let fields = [
            ("key", (&key).into()),
            ("token", token),
            ("fence", fence.into()),
            ("valid_for", valid_for.into()),
        ];
        Record::new("Lease", fields).into()
    }
}

impl From<Answers> for Value {
    fn from(answers: Answers) -> Value {
        let answer = |(node, answer): (String, Result<Option<Inspection>, NodeError>)| {
            let answer = match answer {
                Ok(lock) => ("lock", lock.as_ref().map(Record::from).into()),
                Err(error) => {
                    let report = Report { node: node.clone(), state: error.into() };
                    ("error", Record::from(&report).into())
                }
            };
            Record::new("NodeInspection", [("node", node.into()), answer])
        };
        Value::List(answers.into_iter().map(answer).collect())
    }
}

/// A list of records.
pub(crate) fn list<'a, T>(all: &'a [T]) -> Value
where
    Record: From<&'a T>,
{
    Value::List(all.iter().map(Record::from).collect())
}

impl From<Record> for Value {
    fn from(record: Record) -> Value {
        Value::Record(record)
    }
}

impl<T> From<Option<T>> for Value
where
    Value: From<T>,
{
    fn from(value: Option<T>) -> Value {
        value.map_or(Value::Nothing, Value::from)
    }
}

impl From<()> for Value {
    fn from((): ()) -> Value {
        Value::Nothing
    }
}

impl From<bool> for Value {
    fn from(flag: bool) -> Value {
        Value::Flag(flag)
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Value {
        Value::Number(number)
    }
}

impl From<usize> for Value {
    fn from(number: usize) -> Value {
        Value::Number(number as u64)
    }
}

impl From<Duration> for Value {
    fn from(length: Duration) -> Value {
        Value::Span(length)
    }
}

impl From<Vec<u8>> for Value {
    fn from(bytes: Vec<u8>) -> Value {
        Value::Bytes(bytes)
    }
}

impl From<&Key> for Value {
    fn from(key: &Key) -> Value {
        Value::Bytes(key.as_bytes().to_vec())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Value {
        Value::Bytes(text.into_bytes())
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        text.to_owned().into()
    }
}
