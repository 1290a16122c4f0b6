//! `dlock ls`: the locks of all nodes, merged by their keys.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use dlock_client::operator;
use dlock_client::{DoneInfo, Inspection, Key};
use redis::{Value, cmd, pipe};
use serde_json::json;

use crate::global::Global;
use crate::locks::inspect;
use crate::nodes::ask::{self, Node, Nodes, Trouble};
use crate::nodes::reply;
use crate::say::exit::Exit;
use crate::say::failure::Failure;
use crate::say::kind::Kind;
use crate::say::table::Table;
use crate::say::{bytes, duration, stdout};

/// List the locks
#[derive(Debug, clap::Args)]
#[command(after_help = NOTES)]
pub struct Args {
    /// Only keys that match, as in KEYS and SCAN: `job:*`
    #[arg(long = "match", value_name = "GLOB")]
    pattern: Option<String>,

    /// Only locks that have waiters
    #[arg(long)]
    contended: bool,

    /// List locks that are done, too: since when, and how the work ended
    #[arg(long)]
    done: bool,
}

impl Args {
    pub async fn run(self, global: &Global) -> Result<Exit, Failure> {
        let nodes = Nodes::of(global)?;
        let types = if self.done { &["dlock-key", "dlockdone"][..] } else { &["dlock-key"] };
        let answers = nodes.each(move |node| locks(node, self.pattern.clone(), types)).await;
        ask::complain(&answers, global.json);
        let silent = answers.iter().filter(|(_, answer)| answer.is_err()).count();
        // A lock that a majority holds may be missing.
        let exit = match silent > nodes.count() - nodes.majority() {
            true => ask::kind(&answers).exit(),
            false => Exit::OK,
        };
        if silent == answers.len() {
            return Ok(exit);
        }
        let mut locks = merge(answers.into_iter().filter_map(|(_, found)| found.ok()));
        if self.contended {
            locks.retain(|_, lock| lock.waiters > 0);
        }
        if global.json { print_json(&locks) } else { print(&locks, nodes.count(), self.done) }?;
        Ok(exit)
    }
}

/// The locks of a node.
pub type LocksByKey = BTreeMap<Vec<u8>, Inspection>;

/// Lists all locks of one node.
pub async fn locks(
    mut node: Node,
    pattern: Option<String>,
    types: &[&str],
) -> Result<LocksByKey, Trouble> {
    has_module(&mut node).await?;
    let mut found = LocksByKey::new();
    let mut refused: Option<Trouble> = None;
    for kind in types {
        let mut cursor = b"0".to_vec();
        loop {
            let mut scan = cmd("SCAN");
            scan.arg(&cursor).arg("TYPE").arg(kind).arg("COUNT").arg(PAGE);
            if let Some(pattern) = &pattern {
                scan.arg("MATCH").arg(pattern);
            }
            let (next, mut keys) =
                page(&node.run(&scan).await?).ok_or("its reply to SCAN cannot be understood")?;
            // A key can be on several pages.
            keys.retain(|key| !found.contains_key(key));
            refused = inspect(&mut node, keys, &mut found).await?.or(refused);
            if next == b"0" {
                break;
            }
            cursor = next;
        }
    }
    // A user may have access to some keys only. Without access to any, an empty list would be misleading.
    match refused {
        Some(trouble) if found.is_empty() => Err(trouble),
        _ => Ok(found),
    }
}

/// Fails without the module: such a server looks like one without locks. The request lacks its key, so both
/// refuse it, with different errors.
async fn has_module(node: &mut Node) -> Result<(), Trouble> {
    match node.run(&cmd("DLOCK.INSPECT")).await {
        Err(trouble) if trouble.kind != Kind::Refused => Err(trouble),
        _ => Ok(()),
    }
}

/// Asks for each lock separately, and leaves out those that have ended or moved meanwhile. Returns the last refusal.
async fn inspect(
    node: &mut Node,
    mut keys: Vec<Vec<u8>>,
    found: &mut LocksByKey,
) -> Result<Option<Trouble>, Trouble> {
    let mut refused = None;
    // A cluster server that is importing a slot answers for its keys after ASKING only.
    for asking in [false, true] {
        let mut importing = Vec::new();
        for keys in keys.chunks(AT_ONCE) {
            let mut questions = pipe();
            for key in keys {
                if asking {
                    questions.cmd("ASKING").ignore();
                }
                questions.cmd("DLOCK.INSPECT").arg(key);
            }
            let answers = node.run_all(questions).await?;
            for (key, answer) in keys.iter().zip(&answers) {
                match read(answer) {
                    Ok(None) => {}
                    Ok(Some(inspection)) => drop(found.insert(key.clone(), inspection)),
                    // The lock has ended, and the key has another value now.
                    Err(trouble) if trouble.kind == Kind::WrongType => {}
                    Err(trouble) if trouble.words.starts_with("MOVED ") && !asking => {
                        importing.push(key.clone());
                    }
                    // The other server of a slot that moves shows it.
                    Err(trouble)
                        if ["ASK ", "MOVED "]
                            .iter()
                            .any(|code| trouble.words.starts_with(code)) => {}
                    Err(trouble) => refused = Some(trouble),
                }
            }
        }
        keys = importing;
    }
    Ok(refused)
}

fn read(answer: &Value) -> Result<Option<Inspection>, Trouble> {
    match answer {
        Value::ServerError(error) => Err(Trouble::said(error)),
        answer => Ok(operator::inspection(answer)?),
    }
}

fn page(answer: &Value) -> Option<(Vec<u8>, Vec<Vec<u8>>)> {
    let [cursor, keys] = answer.as_sequence()? else { return None };
    let keys = keys.as_sequence()?.iter().map(reply::bytes).collect::<Option<_>>()?;
    Some((reply::bytes(cursor)?, keys))
}

/// A lock, merged from all nodes.
#[derive(Debug, Default, PartialEq, Eq)]
struct MergedLock {
    /// More than one mode, if the nodes do not agree.
    modes: BTreeSet<String>,
    /// Holders that the nodes list.
    holders: BTreeSet<String>,
    /// The largest number of holders on one node.
    holding: u64,
    nodes: usize,
    shortest: Option<Duration>,
    /// The largest number of waiters on one node: the next in line waits on all of them.
    waiters: u64,
    /// The holder that has left it done, the last one if the nodes do not agree.
    done: Option<DoneInfo>,
}

impl MergedLock {
    fn mode(&self) -> String {
        Vec::from_iter(self.modes.iter().cloned()).join("/")
    }

    /// Number of holders, at least: holders on several nodes may be the same or not.
    fn holders(&self) -> u64 {
        self.holding.max(self.holders.len() as u64)
    }
}

fn merge(nodes: impl Iterator<Item = LocksByKey>) -> BTreeMap<Vec<u8>, MergedLock> {
    let mut locks: BTreeMap<Vec<u8>, MergedLock> = BTreeMap::new();
    for (key, found) in nodes.flatten() {
        let lock = locks.entry(key).or_default();
        lock.waiters = lock.waiters.max(found.waiting);
        if !found.is_held() && found.done.is_none() {
            continue;
        }
        lock.nodes += 1;
        lock.holding = lock.holding.max(found.holding);
        lock.shortest = lock.shortest.into_iter().chain(shortest(&found)).min();
        lock.modes.insert(match found.limit {
            0 => found.mode,
            limit => format!("{} {limit}", found.mode),
        });
        lock.done = lock.done.take().into_iter().chain(found.done).max_by_key(|done| done.fence);
        lock.holders.extend(found.holders.into_iter().map(|holder| holder.id));
    }
    locks.retain(|_, lock| lock.nodes > 0 || lock.waiters > 0);
    locks
}

fn print(locks: &BTreeMap<Vec<u8>, MergedLock>, nodes: usize, done: bool) -> Result<(), Failure> {
    let mut headings = vec!["KEY", "MODE", "HOLDERS", "LEFT", "WAITERS"];
    if nodes > 1 {
        headings.insert(3, "NODES");
    }
    if done {
        headings.extend(["DONE FOR", "OUTCOME"]);
    }
    let mut table = Table::new(&headings);
    for (key, lock) in locks {
        let left = lock.shortest.map_or("-".to_owned(), duration::shown);
        let mut row = vec![bytes::shown(key), lock.mode(), lock.holders().to_string()];
        if nodes > 1 {
            row.push(format!("{} of {nodes}", lock.nodes));
        }
        row.extend([left, lock.waiters.to_string()]);
        if let Some(done) = &lock.done {
            row.extend([duration::shown(done.since), bytes::shown(&done.outcome)]);
        }
        table.row(row);
    }
    table.print()
}

/// Time until the first lease ends, unless it is renewed.
fn shortest(found: &Inspection) -> Option<Duration> {
    found.holders.iter().map(|holder| holder.ttl).chain(found.expires).min()
}

fn print_json(locks: &BTreeMap<Vec<u8>, MergedLock>) -> Result<(), Failure> {
    for (key, lock) in locks {
        let mut others = json!({
            "mode": lock.mode(),
            "holding": lock.holders(),
            "nodes": lock.nodes,
            "ttl_ms": lock.shortest.map(duration::millis),
            "waiting": lock.waiters,
        });
        if let Some(done) = &lock.done {
            others["done"] = inspect::done(done);
        }
        stdout::json(&bytes::about(&Key::from(&key[..]), others))?;
    }
    Ok(())
}

/// Number of keys that a node scans in one step.
const PAGE: u32 = 1000;
/// Number of locks in one request to a node: the size of its reply is not bounded otherwise.
const AT_ONCE: usize = 100;

const NOTES: &str = "\
Lists every lock that is held on at least one node, even without a majority, in the database of the
address. Plain strings of older kinds of locks are not listed: nothing tells them from other data.
Exits with 69 if no majority of the nodes answers: then the list may lack locks;
77 if the nodes refuse this user, 78 if they lack the module.";
