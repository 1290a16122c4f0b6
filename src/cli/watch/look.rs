//! One look at a node.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use dlock_client::Inspection;
use dlock_client::operator;
use dlock_client::operator::Fields;
use dlock_core::limits::HOT_NAME;
use dlock_core::node::observed::Lengths;
use redis::{Value, pipe};

use crate::doctor::limits;
use crate::nodes::ask::Trouble;
use crate::nodes::link::Link;
use crate::nodes::reply::text;
use crate::say::kind::Kind;

/// A node's report about itself.
pub struct NodeLook {
    /// The lines of `INFO dlock`, by their names without `dlock_`, and the lines of `INFO errorstats`.
    lines: BTreeMap<String, String>,
    pub waits: Lengths,
    pub holds: Lengths,
    /// The most contended keys, or the error.
    pub hot: Result<Vec<HotKey>, Trouble>,
}

/// A contended key.
#[derive(Clone)]
pub struct HotKey {
    /// Its name, or the beginning of a long one.
    pub name: Vec<u8>,
    /// True if the name is complete.
    pub is_whole: bool,
    pub db: u64,
    /// True if the key is in the database of the node's URL: only there locks can be inspected and broken.
    pub is_here: bool,
    pub waited: Duration,
    pub longest: Duration,
    pub waiting: u64,
    pub denials: u64,
    /// The lock. Unknown for keys outside of the database of the node's URL.
    pub lock: Option<Inspection>,
}

/// Looks at a node, and at so many hot keys.
pub async fn at(link: &mut Link, hot: usize) -> Result<NodeLook, Trouble> {
    let mut questions = pipe();
    questions.cmd("INFO").arg("dlock").arg("errorstats");
    if hot > 0 {
        questions.cmd("DLOCK.HOT").arg(hot);
    }
    let answers = link.run_all(questions).await?;
    let lines = lines(answers.first())?;
    let mut keys = answers.get(1).map_or(Ok(Vec::new()), hot_keys);
    if let Ok(keys) = &mut keys {
        inspect(link, keys).await?;
    }
    let lengths =
        |name: &str| lines.get(name).and_then(|line| Lengths::read(line)).unwrap_or_default();
    Ok(NodeLook { waits: lengths("wait_us"), holds: lengths("hold_us"), lines, hot: keys })
}

/// Asks for the holders of these keys.
async fn inspect(link: &mut Link, keys: &mut [HotKey]) -> Result<(), Trouble> {
    for key in &mut *keys {
        key.is_here = key.db == link.db();
    }
    let mut asked: Vec<&mut HotKey> =
        keys.iter_mut().filter(|key| key.is_whole && key.is_here).collect();
    if asked.is_empty() {
        return Ok(());
    }
    let mut questions = pipe();
    for key in &asked {
        questions.cmd("DLOCK.INSPECT").arg(&key.name);
    }
    let answers = link.run_all(questions).await?;
    for (key, answer) in asked.iter_mut().zip(answers) {
        // Without permission to inspect the lock the rest is shown.
        key.lock = operator::inspection(&answer).ok().flatten();
        let holders = key.lock.iter_mut().map(|lock| &mut lock.holders);
        holders.for_each(|holders| holders.sort_by_key(|holder| Reverse(holder.held)));
    }
    Ok(())
}

impl NodeLook {
    /// A line of `INFO dlock`; empty if it is not there.
    pub fn text(&self, name: &str) -> &str {
        self.lines.get(name).map_or("", String::as_str)
    }

    /// A number there. A node with an older dlock may lack it.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.lines.get(name)?.parse().ok()
    }

    /// The number of requests that were refused with this code.
    pub fn refused(&self, code: &str) -> u64 {
        limits::count(self.text(&format!("errorstat_{code}"))).unwrap_or(0)
    }

    /// A number of milliseconds there.
    pub fn millis(&self, name: &str) -> Duration {
        Duration::from_millis(self.number(name).unwrap_or(0))
    }
}

impl HotKey {
    /// True if it is the same key on another node.
    pub fn is_same_as(&self, other: &HotKey) -> bool {
        (self.db, &self.name) == (other.db, &other.name)
    }

    fn of(row: &Value) -> Option<HotKey> {
        let row = Fields::of(row)?;
        let name = row.bytes("key")?;
        Some(HotKey {
            is_whole: row.number("key-bytes")? <= HOT_NAME as u64,
            name,
            db: row.number("db")?,
            is_here: false,
            waited: row.millis("waited-ms")?,
            longest: row.millis("longest-wait-ms")?,
            waiting: row.number("waiting")?,
            denials: row.number("denials")?,
            lock: None,
        })
    }
}

fn hot_keys(answer: &Value) -> Result<Vec<HotKey>, Trouble> {
    if let Value::ServerError(error) = answer {
        return Err(Trouble::said(error));
    }
    let rows = answer.as_sequence().and_then(|rows| rows.iter().map(HotKey::of).collect());
    rows.ok_or_else(|| "its answer to DLOCK.HOT cannot be understood".into())
}

fn lines(answer: Option<&Value>) -> Result<BTreeMap<String, String>, Trouble> {
    if let Some(Value::ServerError(error)) = answer {
        return Err(Trouble::said(error));
    }
    let text = answer.and_then(text).unwrap_or_default();
    let pairs = text.lines().filter_map(|line| line.split_once(':'));
    let own = |(name, value): (&str, &str)| {
        let name = name.strip_prefix("dlock_").or(Some(name).filter(|_| name.starts_with(ERRORS)));
        Some((name?.to_owned(), value.to_owned()))
    };
    let lines: BTreeMap<String, String> = pairs.filter_map(own).collect();
    if lines.contains_key("agent_version") {
        return Err(Trouble::agent());
    }
    if lines.keys().all(|name| name.starts_with(ERRORS)) {
        return Err(Trouble { kind: Kind::Unfit, words: NO_MODULE.to_owned() });
    }
    Ok(lines)
}

/// Names of the counts of errors, by their codes.
const ERRORS: &str = "errorstat_";

const NO_MODULE: &str = "INFO has nothing of dlock: the module is not loaded";
