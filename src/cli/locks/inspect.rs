//! `dlock inspect`: a lock's holders and waiters, on every node.

use std::collections::BTreeMap;
use std::time::Duration;

use dlock_client::operator;
use dlock_client::{DoneInfo, HolderInfo, Inspection, Key, WaiterInfo};
use redis::cmd;
use serde_json::{Value, json};

use crate::global::Global;
use crate::key::KeyArg;
use crate::nodes::ask::{self, Answers, Nodes, Trouble};
use crate::say::exit::Exit;
use crate::say::failure::Failure;
use crate::say::table::Table;
use crate::say::{bytes, duration, stdout};

/// Show the holders and waiters of a lock
#[derive(Debug, clap::Args)]
#[command(after_help = NOTES)]
pub struct Args {
    #[command(flatten)]
    key: KeyArg,

    /// Show tokens too: a token is enough to release the lock. Needs the right to DLOCK.TOKENS
    #[arg(long)]
    tokens: bool,
}

impl Args {
    pub async fn run(self, global: &Global) -> Result<Exit, Failure> {
        let key = self.key.named()?.key;
        let nodes = Nodes::of(global)?;
        let answers = ask(&nodes, &key, self.tokens).await;
        let verdict = Verdict::of(&answers, nodes.majority());
        if global.json {
            print_json(&key, &answers, &verdict)?;
        } else {
            // A table has no room for errors.
            ask::complain(&answers, false);
            print(&key, &answers, &verdict, self.tokens)?;
        }
        Ok(match verdict {
            Verdict::Unknown { .. } => ask::kind(&answers).exit(),
            verdict => verdict.exit(),
        })
    }
}

/// Each node's report about a lock.
pub type Inspections = Answers<Option<Inspection>>;

/// Asks each node, for tokens as well if `tokens` is set.
pub async fn ask(nodes: &Nodes, key: &Key, tokens: bool) -> Inspections {
    let mut question = cmd(if tokens { "DLOCK.TOKENS" } else { "DLOCK.INSPECT" });
    question.arg(key.as_bytes());
    let answers = nodes.ask(key, &question).await.into_iter();
    let read = |answer: Result<_, Trouble>| Ok(operator::inspection(&answer?)?);
    answers.map(|(name, answer)| (name, read(answer))).collect()
}

/// The verdict of all nodes together.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// A majority has this holder. Its fence is not always known: a node that has lost the lease gives it a larger one.
    Held { nodes: usize },
    /// A majority has a plain string at the key.
    Foreign { nodes: usize },
    /// A majority has a completion record with this fence.
    Done { nodes: usize, fence: u64 },
    /// A majority has evicted the lock, and grants it to no client yet.
    Evicted { nodes: usize },
    /// Clients hold it on this many nodes, and none of them can have a majority.
    Split { nodes: usize },
    /// No node that answers has a holder.
    Free,
    /// The verdict depends on nodes without an answer.
    Unknown { nodes: usize },
}

impl Verdict {
    pub fn of(answers: &Inspections, majority: usize) -> Verdict {
        let found: Vec<&Inspection> =
            answers.iter().filter_map(|(_, answer)| answer.as_ref().ok()?.as_ref()).collect();
        let silent = answers.iter().filter(|(_, answer)| answer.is_err()).count();
        let foreign = found.iter().filter(|inspection| inspection.is_foreign()).count();
        let evicted = found.iter().filter(|inspection| inspection.is_evicted()).count();
        let mut holders: BTreeMap<&str, usize> = BTreeMap::new();
        for holder in found.iter().flat_map(|inspection| &inspection.holders) {
            *holders.entry(&holder.id).or_default() += 1;
        }
        let widest = holders.into_values().max().unwrap_or_default();
        let mut records: BTreeMap<u64, usize> = BTreeMap::new();
        for done in found.iter().filter_map(|inspection| inspection.done.as_ref()) {
            *records.entry(done.fence).or_default() += 1;
        }
        let done =
            records.into_iter().map(|(fence, nodes)| (nodes, fence)).max().unwrap_or_default();
        let held = found.iter().filter(|inspection| inspection.is_held()).count();
        match widest {
            nodes if nodes >= majority => Verdict::Held { nodes },
            _ if foreign >= majority => Verdict::Foreign { nodes: foreign },
            _ if done.0 >= majority => Verdict::Done { nodes: done.0, fence: done.1 },
            _ if evicted >= majority => Verdict::Evicted { nodes: evicted },
            nodes if nodes.max(foreign).max(done.0).max(evicted) + silent >= majority => {
                Verdict::Unknown { nodes: held }
            }
            _ if held > 0 => Verdict::Split { nodes: held },
            _ => Verdict::Free,
        }
    }

    fn exit(&self) -> Exit {
        match self {
            Verdict::Held { .. } | Verdict::Foreign { .. } => Exit::OK,
            Verdict::Done { .. }
            | Verdict::Evicted { .. }
            | Verdict::Split { .. }
            | Verdict::Free => Exit::CONFLICT,
            Verdict::Unknown { .. } => Exit::NO_QUORUM,
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Verdict::Held { .. } => "held",
            Verdict::Foreign { .. } => "foreign",
            Verdict::Done { .. } => "done",
            Verdict::Evicted { .. } => "evicted",
            Verdict::Split { .. } => "split",
            Verdict::Free => "free",
            Verdict::Unknown { .. } => "unknown",
        }
    }

    /// The text for people, when there are several nodes.
    pub fn sentence(&self, all: usize) -> String {
        match self {
            Verdict::Held { nodes } => format!("held on {nodes} of {all} nodes"),
            Verdict::Foreign { nodes } => {
                format!(
                    "held by a client of an older kind of lock: a plain string on {nodes} of {all} nodes"
                )
            }
            Verdict::Done { nodes, fence } => {
                format!("done on {nodes} of {all} nodes, by the holder with fence {fence}")
            }
            Verdict::Evicted { nodes } => {
                format!("evicted on {nodes} of {all} nodes: shut until its lease would have ended")
            }
            Verdict::Split { nodes } => {
                format!("split: leases on {nodes} of {all} nodes, and no client has a majority")
            }
            Verdict::Free => "free".to_owned(),
            Verdict::Unknown { nodes } => {
                format!("unknown: leases on {nodes} of {all} nodes, and too few nodes answer")
            }
        }
    }
}

fn print(key: &Key, answers: &Inspections, verdict: &Verdict, tokens: bool) -> Result<(), Failure> {
    let of_several = answers.len() > 1;
    if of_several {
        stdout::line(format_args!("{key}: {}\n", verdict.sentence(answers.len())))?;
    }
    table(answers, tokens).print()
}

/// A table of holders and waiters, a line each.
pub fn table(answers: &Inspections, tokens: bool) -> Table {
    let shown = |column: &usize| *column != TOKEN || tokens;
    let columns: Vec<usize> = (0..HEADINGS.len()).filter(shown).collect();
    let mut table = Table::new(&columns.iter().map(|column| HEADINGS[*column]).collect::<Vec<_>>());
    for row in rows(answers) {
        table.row(columns.iter().filter_map(|column| row.get(*column).cloned()).collect());
    }
    table
}

/// Each holder and waiter on each node, with a cell for each of the [`HEADINGS`]. A row about a node as a whole is
/// shorter.
pub fn rows(answers: &Inspections) -> Vec<Vec<String>> {
    let of_node = |(name, answer): &(String, Result<Option<Inspection>, Trouble>)| {
        let rows = match answer {
            Err(trouble) => vec![vec![trouble.kind.name().replace('_', " ")]],
            Ok(None) => vec![vec!["free".to_owned()]],
            Ok(Some(found)) => rows_of(found),
        };
        let name = name.clone();
        rows.into_iter().map(move |row| [vec![name.clone()], row].concat())
    };
    answers.iter().flat_map(of_node).collect()
}

fn rows_of(found: &Inspection) -> Vec<Vec<String>> {
    let mode = match found.limit {
        0 => found.mode.clone(),
        limit => format!("{} {limit}", found.mode),
    };
    let more = |all: u64, listed: usize, what| {
        let unlisted = all.saturating_sub(listed as u64);
        (unlisted > 0).then(|| vec![format!("and {unlisted} more {what}")])
    };
    let mut rows = Vec::from_iter(unheld(found, &mode));
    rows.extend(found.holders.iter().map(|holder| holder_row(holder, &mode)));
    rows.extend(more(found.holding, found.holders.len(), "hold"));
    rows.extend(found.waiters.iter().map(waiter_row));
    rows.extend(more(found.waiting, found.waiters.len(), "wait"));
    rows
}

/// The row of a key that has another value than a lock with holders.
fn unheld(found: &Inspection, mode: &str) -> Option<Vec<String>> {
    let left = left(found.expires);
    let row = |words: [&str; 8]| Some(words.map(str::to_owned).to_vec());
    match &found.done {
        _ if found.is_foreign() => row(["holds", mode, "", "", &left, "", "", "a plain string"]),
        _ if found.is_evicted() => {
            row(["shut", mode, "", "", &left, "", "", "until its lease would have ended"])
        }
        Some(done) => {
            let (fence, since) = (done.fence.to_string(), duration::shown(done.since));
            row(["done", "", &fence, &since, &left, "", "", &bytes::shown(&done.outcome)])
        }
        None => None,
    }
}

fn holder_row(holder: &HolderInfo, mode: &str) -> Vec<String> {
    let what = match (holder.ephemeral, holder.away) {
        (true, _) => "holds, ephemeral",
        (_, true) => "its turn, away",
        _ => "holds",
    };
    vec![
        what.to_owned(),
        mode.to_owned(),
        holder.fence.to_string(),
        duration::shown(holder.held),
        duration::shown(holder.ttl),
        client(holder.client),
        token(holder.token.as_deref()),
        bytes::shown(&holder.meta),
    ]
}

fn waiter_row(waiter: &WaiterInfo) -> Vec<String> {
    vec![
        if waiter.away { "waits, away" } else { "waits" }.to_owned(),
        waiter.mode.clone(),
        String::new(),
        duration::shown(waiter.waited),
        left(waiter.left),
        client(waiter.client),
        token(waiter.token.as_deref()),
        bytes::shown(&waiter.meta),
    ]
}

fn left(left: Option<Duration>) -> String {
    left.map_or("no end".to_owned(), duration::shown)
}

fn client(client: Option<u64>) -> String {
    client.map_or("gone".to_owned(), |id| id.to_string())
}

fn token(token: Option<&[u8]>) -> String {
    token.map_or(String::new(), bytes::shown)
}

fn print_json(key: &Key, answers: &Inspections, verdict: &Verdict) -> Result<(), Failure> {
    for (name, answer) in answers {
        let mut object = json!({ "node": name });
        match answer {
            Err(trouble) => {
                object["kind"] = trouble.kind.name().into();
                object["error"] = trouble.words.as_str().into();
            }
            Ok(None) => object["mode"] = Value::Null,
            Ok(Some(found)) => insert_found(&mut object, found),
        }
        stdout::json(&bytes::about(key, object))?;
    }
    let mut object = json!({ "state": verdict.name() });
    if let Verdict::Done { fence, .. } = verdict {
        object["fence"] = json!(fence);
    }
    object["nodes"] = answers.len().into();
    object["answered"] = answers.iter().filter(|(_, answer)| answer.is_ok()).count().into();
    stdout::json(&bytes::about(key, object))
}

fn insert_found(object: &mut Value, found: &Inspection) {
    let holders = found.holders.iter().map(|holder| {
        let one = json!({
            "id": holder.id,
            "fence": holder.fence,
            "ttl_ms": duration::millis(holder.ttl),
            "held_ms": duration::millis(holder.held),
            "client": holder.client,
            "ephemeral": holder.ephemeral,
            "away": holder.away,
        });
        with_words(one, &holder.meta, holder.token.as_deref())
    });
    let waiters = found.waiters.iter().map(|waiter| {
        let one = json!({
            "id": waiter.id,
            "mode": waiter.mode,
            "waited_ms": duration::millis(waiter.waited),
            "left_ms": waiter.left.map(duration::millis),
            "client": waiter.client,
            "away": waiter.away,
        });
        with_words(one, &waiter.meta, waiter.token.as_deref())
    });
    object["mode"] = found.mode.as_str().into();
    object["limit"] = found.limit.into();
    object["holding"] = found.holding.into();
    object["holders"] = holders.collect();
    object["waiting"] = found.waiting.into();
    object["waiters"] = waiters.collect();
    if let Some(done) = &found.done {
        object["done"] = self::done(done);
    }
    if found.is_foreign() || found.is_evicted() || found.done.is_some() {
        object["ttl_ms"] = json!(found.expires.map(duration::millis));
    }
}

/// The holder that has left a lock done, for programs.
pub fn done(done: &DoneInfo) -> Value {
    let mut one = json!({
        "id": done.id,
        "fence": done.fence,
        "since_ms": duration::millis(done.since),
    });
    bytes::insert(&mut one, "outcome", &done.outcome);
    one
}

fn with_words(mut object: Value, meta: &[u8], token: Option<&[u8]>) -> Value {
    bytes::insert(&mut object, "meta", meta);
    if let Some(token) = token {
        bytes::insert(&mut object, "token", token);
    }
    object
}

/// The columns of all tables of holders and waiters.
pub const HEADINGS: [&str; 9] =
    ["NODE", "WHAT", "MODE", "FENCE", "FOR", "LEFT", "CLIENT", "TOKEN", "META"];
const TOKEN: usize = 7;

const NOTES: &str = "\
Exits with 0 if a majority of the nodes says that the lock is held, 1 if it is free, done or evicted, 69 if too few nodes answer to say; 77 if they refuse this user, 78 if they lack the module.";

#[cfg(test)]
mod tests {
    use super::*;

    fn held(holders: &[(&str, u64)]) -> Result<Option<Inspection>, Trouble> {
        let holder = |(id, fence): &(&str, u64)| {
            let mut holder = HolderInfo::default();
            (holder.id, holder.fence) = ((*id).to_owned(), *fence);
            holder
        };
        let mut found = Inspection::default();
        found.mode = "exclusive".to_owned();
        found.holding = holders.len() as u64;
        found.holders = holders.iter().map(holder).collect();
        Ok(Some(found))
    }

    fn verdict<const N: usize>(answers: [Result<Option<Inspection>, Trouble>; N]) -> Verdict {
        let answers = answers.into_iter().map(|answer| ("node".to_owned(), answer)).collect();
        Verdict::of(&answers, N / 2 + 1)
    }

    #[test]
    fn a_majority_has_evicted_it() {
        let evicted = || {
            let mut found = Inspection::default();
            found.mode = "evicted".to_owned();
            Ok(Some(found))
        };
        assert_eq!(verdict([evicted()]), Verdict::Evicted { nodes: 1 });
        assert_eq!(verdict([evicted(), evicted(), silent()]), Verdict::Evicted { nodes: 2 });
        assert_eq!(verdict([evicted(), silent(), Ok(None)]), Verdict::Unknown { nodes: 0 });
    }

    fn silent() -> Result<Option<Inspection>, Trouble> {
        Err("gone".into())
    }

    #[test]
    fn a_majority_holds() {
        let (a, b) = (|| held(&[("a", 5)]), || held(&[("b", 6)]));
        assert_eq!(verdict([a()]), Verdict::Held { nodes: 1 });
        assert_eq!(verdict([a(), Ok(None), a()]), Verdict::Held { nodes: 2 });
        assert_eq!(verdict([a(), a(), b()]), Verdict::Held { nodes: 2 });
        let lost_it_once = held(&[("a", 7)]);
        assert_eq!(verdict([a(), lost_it_once, silent()]), Verdict::Held { nodes: 2 });
        let readers = [held(&[("a", 5), ("b", 5)]), held(&[("b", 5)]), Ok(None)];
        assert_eq!(verdict(readers), Verdict::Held { nodes: 2 });
    }

    #[test]
    fn no_majority_holds() {
        let (a, b) = (|| held(&[("a", 5)]), || held(&[("b", 6)]));
        assert_eq!(verdict([Ok(None), Ok(None), Ok(None)]), Verdict::Free);
        assert_eq!(verdict([Ok(None), Ok(None), silent()]), Verdict::Free);
        assert_eq!(verdict([a(), b(), Ok(None)]), Verdict::Split { nodes: 2 });
        assert_eq!(verdict([a(), b(), silent()]), Verdict::Unknown { nodes: 2 });
        assert_eq!(verdict([Ok(None), silent(), silent()]), Verdict::Unknown { nodes: 0 });
        assert_eq!(verdict([silent()]), Verdict::Unknown { nodes: 0 });
    }
}
