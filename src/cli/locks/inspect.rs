//! `dlock inspect`: a lock's holders and waiters, on every node.

use std::collections::BTreeMap;

use dlock_client::operator;
use dlock_client::{DoneInfo, HolderInfo, Inspection, Key, WaiterInfo};
use redis::cmd;
use serde_json::{Map, Value, json};

use crate::global::Global;
use crate::key::KeyArg;
use crate::nodes::ask::{self, Answers, Nodes};
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
    nodes
        .each_with(key, move |mut node| {
            let question = question.clone();
            async move { Ok(operator::inspection(&node.run(&question).await?)?) }
        })
        .await
}

/// The verdict of all nodes together.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// A majority has this holder; its fence, if a majority agrees on it.
    Held { nodes: usize, fence: Option<u64> },
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
        let mut fences: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
        for holder in found.iter().flat_map(|inspection| &inspection.holders) {
            fences.entry(&holder.id).or_default().push(holder.fence);
        }
        let widest =
            fences.into_values().max_by_key(|fences| (fences.len(), fences.iter().max().copied()));
        let widest = widest.unwrap_or_default();
        let mut records: BTreeMap<u64, usize> = BTreeMap::new();
        for done in found.iter().filter_map(|inspection| inspection.done.as_ref()) {
            *records.entry(done.fence).or_default() += 1;
        }
        let done =
            records.into_iter().map(|(fence, nodes)| (nodes, fence)).max().unwrap_or_default();
        let held = found.iter().filter(|inspection| inspection.is_held()).count();
        match widest.len() {
            nodes if nodes >= majority => {
                let agree = |fence: &u64| widest.iter().filter(|other| *other == fence).count();
                let fence = widest.iter().copied().find(|fence| agree(fence) >= majority);
                Verdict::Held { nodes, fence }
            }
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
            Verdict::Held { nodes, fence: Some(fence) } => {
                format!("held on {nodes} of {all} nodes, with fence {fence}")
            }
            Verdict::Held { nodes, fence: None } => {
                format!("held on {nodes} of {all} nodes, which do not agree on a fence (yet)")
            }
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
    let mut headings = vec!["NODE", "WHAT", "MODE", "FENCE", "FOR", "LEFT", "CLIENT", "META"];
    if tokens {
        headings.insert(7, "TOKEN");
    }
    let mut table = Table::new(&headings);
    for (name, answer) in answers {
        let line = |words: String| vec![name.clone(), words];
        match answer {
            Err(trouble) => table.row(line(trouble.kind.name().replace('_', " "))),
            Ok(None) => table.row(line("free".to_owned())),
            Ok(Some(found)) => {
                for row in rows(found, tokens) {
                    table.row([vec![name.clone()], row].concat());
                }
            }
        }
    }
    table
}

fn rows(found: &Inspection, tokens: bool) -> Vec<Vec<String>> {
    let mode = match found.limit {
        0 => found.mode.clone(),
        limit => format!("{} {limit}", found.mode),
    };
    let mut rows = Vec::new();
    if found.is_foreign() || found.is_evicted() {
        let left = found.expires.map_or(NO_END.to_owned(), duration::shown);
        let words = match found.is_foreign() {
            true => ["holds", &mode, "", "", &left, "", "a plain string"],
            false => ["shut", &mode, "", "", &left, "", "until its lease would have ended"],
        };
        let mut row: Vec<String> = words.map(str::to_owned).to_vec();
        if tokens {
            row.insert(6, String::new());
        }
        rows.push(row);
    }
    if let Some(done) = &found.done {
        let left = found.expires.map_or(NO_END.to_owned(), duration::shown);
        let mut row = vec!["done".to_owned(), String::new(), done.fence.to_string()];
        row.extend([duration::shown(done.since), left, String::new(), bytes::shown(&done.outcome)]);
        if tokens {
            row.insert(6, String::new());
        }
        rows.push(row);
    }
    let more = |all: u64, listed: usize, what| {
        let unlisted = all.saturating_sub(listed as u64);
        (unlisted > 0).then(|| vec![format!("and {unlisted} more {what}")])
    };
    rows.extend(found.holders.iter().map(|holder| holder_row(holder, &mode, tokens)));
    rows.extend(more(found.holding, found.holders.len(), "hold"));
    rows.extend(found.waiters.iter().map(|waiter| waiter_row(waiter, tokens)));
    rows.extend(more(found.waiting, found.waiters.len(), "wait"));
    rows
}

fn holder_row(holder: &HolderInfo, mode: &str, tokens: bool) -> Vec<String> {
    let what = match (holder.ephemeral, holder.away) {
        (true, _) => "holds, ephemeral",
        (_, true) => "its turn, away",
        _ => "holds",
    };
    let (held, left) = (duration::shown(holder.held), duration::shown(holder.ttl));
    let mut row = vec![what.to_owned(), mode.to_owned(), holder.fence.to_string(), held, left];
    row.push(client(holder.client));
    if tokens {
        row.push(shown_token(holder.token.as_deref()));
    }
    row.push(bytes::shown(&holder.meta));
    row
}

fn waiter_row(waiter: &WaiterInfo, tokens: bool) -> Vec<String> {
    let left = waiter.left.map_or(NO_END.to_owned(), duration::shown);
    let what = if waiter.away { "waits, away" } else { "waits" };
    let mut row = vec![
        what.to_owned(),
        waiter.mode.clone(),
        String::new(),
        duration::shown(waiter.waited),
        left,
    ];
    row.push(client(waiter.client));
    if tokens {
        row.push(shown_token(waiter.token.as_deref()));
    }
    row.push(bytes::shown(&waiter.meta));
    row
}

fn shown_token(token: Option<&[u8]>) -> String {
    token.map_or(String::new(), bytes::shown)
}

fn client(client: Option<u64>) -> String {
    client.map_or("gone".to_owned(), |id| id.to_string())
}

fn print_json(key: &Key, answers: &Inspections, verdict: &Verdict) -> Result<(), Failure> {
    for (name, answer) in answers {
        let mut object = Map::new();
        bytes::insert(&mut object, "key", key.as_bytes());
        object.insert("node".to_owned(), name.as_str().into());
        match answer {
            Err(trouble) => {
                object.insert("kind".to_owned(), trouble.kind.name().into());
                object.insert("error".to_owned(), trouble.words.as_str().into());
            }
            Ok(None) => drop(object.insert("mode".to_owned(), Value::Null)),
            Ok(Some(found)) => insert_found(&mut object, found),
        }
        stdout::json(&object.into())?;
    }
    let mut object = Map::new();
    bytes::insert(&mut object, "key", key.as_bytes());
    object.insert("state".to_owned(), verdict.name().into());
    match verdict {
        Verdict::Held { fence, .. } => drop(object.insert("fence".to_owned(), json!(fence))),
        Verdict::Done { fence, .. } => drop(object.insert("fence".to_owned(), json!(fence))),
        _ => {}
    }
    object.insert("nodes".to_owned(), answers.len().into());
    let answered = answers.iter().filter(|(_, answer)| answer.is_ok()).count();
    object.insert("answered".to_owned(), answered.into());
    stdout::json(&object.into())
}

fn insert_found(object: &mut Map<String, Value>, found: &Inspection) {
    let holders = found.holders.iter().map(|holder| {
        let mut one = Map::new();
        one.insert("id".to_owned(), holder.id.as_str().into());
        one.insert("fence".to_owned(), holder.fence.into());
        one.insert("ttl_ms".to_owned(), duration::millis(holder.ttl).into());
        one.insert("held_ms".to_owned(), duration::millis(holder.held).into());
        one.insert("client".to_owned(), json!(holder.client));
        one.insert("ephemeral".to_owned(), holder.ephemeral.into());
        one.insert("away".to_owned(), holder.away.into());
        insert_words(&mut one, &holder.meta, holder.token.as_deref());
        Value::Object(one)
    });
    let waiters = found.waiters.iter().map(|waiter| {
        let mut one = Map::new();
        one.insert("id".to_owned(), waiter.id.as_str().into());
        one.insert("mode".to_owned(), waiter.mode.as_str().into());
        one.insert("waited_ms".to_owned(), duration::millis(waiter.waited).into());
        one.insert("left_ms".to_owned(), json!(waiter.left.map(duration::millis)));
        one.insert("client".to_owned(), json!(waiter.client));
        one.insert("away".to_owned(), waiter.away.into());
        insert_words(&mut one, &waiter.meta, waiter.token.as_deref());
        Value::Object(one)
    });
    object.insert("mode".to_owned(), found.mode.as_str().into());
    object.insert("limit".to_owned(), found.limit.into());
    object.insert("holding".to_owned(), found.holding.into());
    object.insert("holders".to_owned(), holders.collect());
    object.insert("waiting".to_owned(), found.waiting.into());
    object.insert("waiters".to_owned(), waiters.collect());
    if let Some(done) = &found.done {
        object.insert("done".to_owned(), self::done(done));
    }
    if found.is_foreign() || found.is_evicted() || found.done.is_some() {
        object.insert("ttl_ms".to_owned(), json!(found.expires.map(duration::millis)));
    }
}

/// The holder that has left a lock done, for programs.
pub fn done(done: &DoneInfo) -> Value {
    let mut one = Map::new();
    one.insert("id".to_owned(), done.id.as_str().into());
    one.insert("fence".to_owned(), done.fence.into());
    one.insert("since_ms".to_owned(), duration::millis(done.since).into());
    bytes::insert(&mut one, "outcome", &done.outcome);
    one.into()
}

fn insert_words(object: &mut Map<String, Value>, meta: &[u8], token: Option<&[u8]>) {
    bytes::insert(object, "meta", meta);
    if let Some(token) = token {
        bytes::insert(object, "token", token);
    }
}

const NO_END: &str = "no end";

const NOTES: &str = "\
Exits with 0 if a majority of the nodes says that the lock is held, 1 if it is free, done or evicted, 69 if too few nodes answer to say; 77 if they refuse this user, 78 if they lack the module.";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::ask::Trouble;

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
        assert_eq!(verdict([a()]), Verdict::Held { nodes: 1, fence: Some(5) });
        assert_eq!(verdict([a(), Ok(None), a()]), Verdict::Held { nodes: 2, fence: Some(5) });
        assert_eq!(verdict([a(), a(), b()]), Verdict::Held { nodes: 2, fence: Some(5) });
        assert_eq!(verdict([a(), a(), silent()]), Verdict::Held { nodes: 2, fence: Some(5) });
        let differ = [a(), held(&[("a", 7)]), silent()];
        assert_eq!(verdict(differ), Verdict::Held { nodes: 2, fence: None });
        let readers = [held(&[("a", 5), ("b", 5)]), held(&[("b", 5)]), Ok(None)];
        assert_eq!(verdict(readers), Verdict::Held { nodes: 2, fence: Some(5) });
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
