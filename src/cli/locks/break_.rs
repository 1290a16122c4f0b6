//! `dlock break`: ends the leases of other clients, and makes a lock free that is done.

use std::ffi::OsString;
use std::io::{self, BufRead, IsTerminal, Write};

use dlock_client::{Inspection, Key};
use redis::{Value, cmd};
use serde_json::json;

use crate::global::Global;
use crate::key::KeyArg;
use crate::locks::inspect::{self, Inspections, Verdict};
use crate::nodes::ask::{self, Answers, Nodes};
use crate::say::exit::Exit;
use crate::say::failure::Failure;
use crate::say::{bytes, duration, stderr, stdout};

/// End a lock that another client holds, or that is done
#[derive(Debug, clap::Args)]
#[command(after_help = NOTES)]
pub struct Args {
    #[command(flatten)]
    key: KeyArg,

    /// End only the lease of this token, which `dlock inspect --tokens` shows
    token: Option<OsString>,

    /// Do not ask
    #[arg(short, long)]
    yes: bool,
}

impl Args {
    pub async fn run(self, global: &Global) -> Result<Exit, Failure> {
        let key = self.key.named()?.key;
        let token = self.token.as_ref().map(|token| self.key.escaped().bytes(token)).transpose()?;
        let nodes = Nodes::of(global)?;
        if !self.yes && !can_ask() {
            return Err(Failure::usage(
                "there is no terminal to ask on: add --yes to end the lock",
            ));
        }
        let mut seen = inspect::ask(&nodes, &key, false).await;
        loop {
            if !is_to_break(&key, &seen, &nodes, global.json) {
                return Ok(Exit::CONFLICT);
            }
            if self.yes {
                break;
            }
            if !confirmed(&key, &seen) {
                return Ok(Exit::CONFLICT);
            }
            // The user has confirmed the end of this holder, not of a later one.
            let now = inspect::ask(&nodes, &key, false).await;
            if holders(&now) == holders(&seen) {
                break;
            }
            stderr::warn("changed_hands", "the lock has changed hands meanwhile", global.json);
            seen = now;
        }
        let answers = ended(&nodes, &key, token).await;
        let what = if is_only_done(&seen) { "completion record" } else { "lease" };
        report(&key, &answers, (nodes.majority(), what), global.json)
    }
}

fn can_ask() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Shows the locks that are about to end. Returns false if there are none.
fn is_to_break(key: &Key, seen: &Inspections, nodes: &Nodes, as_json: bool) -> bool {
    let found = || seen.iter().filter_map(|(_, answer)| answer.as_ref().ok()?.as_ref());
    let answered = seen.iter().filter(|(_, answer)| answer.is_ok()).count();
    if found().any(|lock| !lock.holders.is_empty() || lock.done.is_some()) {
        if !as_json {
            show(key, seen, nodes);
        }
        return true;
    }
    if found().any(|lock| lock.is_foreign()) {
        let words = format!("'{key}' is a plain string, an older kind of lock: DEL ends it");
        stderr::warn("foreign", words, as_json);
        return false;
    }
    if let Some(lock) = found().filter(|lock| lock.is_evicted()).max_by_key(|lock| lock.expires) {
        let left = duration::shown(lock.expires.unwrap_or_default());
        let words = format!(
            "'{key}' was evicted, and is shut for {left}: until its lease would have ended"
        );
        stderr::warn("evicted", words, as_json);
        return false;
    }
    // A node that does not answer may have leases.
    if answered < nodes.count() {
        return true;
    }
    stderr::warn("free", format_args!("no client holds '{key}': there is nothing to end"), as_json);
    false
}

/// Prints to stderr: stdout is for the ended leases.
fn show(key: &Key, seen: &Inspections, nodes: &Nodes) {
    if seen.len() > 1 {
        let verdict = Verdict::of(seen, nodes.majority());
        let _ = writeln!(io::stderr(), "{key}: {}\n", verdict.sentence(seen.len()));
    }
    inspect::table(seen, false).print_to_stderr();
}

/// The fences of the holders on each node, or of the completion record: each grant has its own.
fn holders(seen: &Inspections) -> Vec<Vec<u64>> {
    let fences = |found: &Inspection| {
        let done = found.done.iter().map(|done| done.fence);
        found.holders.iter().map(|holder| holder.fence).chain(done).collect()
    };
    seen.iter()
        .map(|(_, answer)| answer.as_ref().ok().and_then(Option::as_ref).map_or(vec![], fences))
        .collect()
}

/// True if it is done on a node, and not held on any.
fn is_only_done(seen: &Inspections) -> bool {
    let mut found = seen.iter().filter_map(|(_, answer)| answer.as_ref().ok()?.as_ref()).peekable();
    found.peek().is_some() && found.all(|lock| lock.done.is_some())
}

fn confirmed(key: &Key, seen: &Inspections) -> bool {
    let nodes =
        if seen.len() == 1 { "one node".to_owned() } else { format!("{} nodes", seen.len()) };
    let risk = match is_only_done(seen) {
        true => "Its work is done, and the next client does it again.",
        false => "Its holder may still be at work.",
    };
    let _ = write!(io::stderr(), "End the lock {key} on {nodes}? {risk} [y/N] ");
    let mut answer = String::new();
    let read = io::stdin().lock().read_line(&mut answer);
    read.is_ok() && ["y", "yes"].contains(&answer.trim().to_lowercase().as_str())
}

/// Ends every lease of the lock, or the one of this token. Returns the number of ended leases on each node.
async fn ended(nodes: &Nodes, key: &Key, token: Option<Vec<u8>>) -> Answers<u64> {
    let mut question = cmd("DLOCK.BREAK");
    question.arg(key.as_bytes());
    if let Some(token) = &token {
        question.arg(token);
    }
    let read = |answer| match answer {
        Ok(Value::Int(leases)) => Ok(leases.unsigned_abs()),
        Ok(_) => Err("its answer to DLOCK.BREAK cannot be understood".into()),
        Err(trouble) => Err(trouble),
    };
    let answers = nodes.ask(key, &question).await.into_iter();
    answers.map(|(name, answer)| (name, read(answer))).collect()
}

fn report(
    key: &Key,
    answers: &Answers<u64>,
    (majority, what): (usize, &str),
    as_json: bool,
) -> Result<Exit, Failure> {
    let (mut ended, mut answered) = (0, 0);
    for (name, answer) in answers {
        let printed = match answer {
            Ok(leases) => {
                ended += leases;
                answered += 1;
                let plural = if *leases == 1 { "" } else { "s" };
                match as_json {
                    true => {
                        stdout::json(&bytes::about(key, json!({"node": name, "ended": leases})))
                    }
                    false => stdout::line(format_args!("{name}: {leases} {what}{plural} ended")),
                }
            }
            Err(trouble) if as_json => {
                let (kind, words) = (trouble.kind.name(), &trouble.words);
                let others = json!({"node": name, "kind": kind, "error": words});
                stdout::json(&bytes::about(key, others))
            }
            Err(trouble) => {
                trouble.complain(name, false);
                Ok(())
            }
        };
        printed?;
    }
    Ok(match (answered >= majority, ended) {
        (false, _) => ask::kind(answers).exit(),
        (true, 0) => Exit::CONFLICT,
        (true, _) => Exit::OK,
    })
}

const NOTES: &str = "\
Shows the holders of the lock, or that it is done, and asks on the terminal; without a terminal it needs --yes.
The holder gets no message: it finds out when it renews its lease. A lock that was done is free, so that its
job runs again. Exits with 1 if the lock was neither held nor done, or the answer was no; 69 if no majority of the
nodes answered, so that the lock may still be held; 77 if the nodes refuse this user, 78 if they lack the module.";
