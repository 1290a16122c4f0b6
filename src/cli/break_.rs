//! `dlock break`: ends leases that somebody else holds.

use std::ffi::OsString;
use std::io::{self, BufRead, IsTerminal, Write};

use dlock_client::Key;
use redis::cmd;
use serde_json::json;

use crate::args::Global;
use crate::ask::{Answers, Nodes};
use crate::exit::Exit;
use crate::key::KeyArg;
use crate::{bytes, inspection, output};

/// End a lock that somebody else holds
#[derive(Debug, clap::Args)]
#[command(after_help = NOTES)]
pub struct Args {
    #[command(flatten)]
    key: KeyArg,

    /// Only this holder, as `dlock inspect --tokens` shows it
    token: Option<OsString>,

    /// Do not ask
    #[arg(short, long)]
    yes: bool,
}

pub async fn main(args: Args, global: &Global) -> Exit {
    let token = args.token.map(|token| args.key.escaped().bytes(&token)).transpose();
    let (key, token) = match args.key.named().and_then(|named| Ok((named.key, token?))) {
        Ok(both) => both,
        Err(failure) => return failure.report(),
    };
    let nodes = match Nodes::of(global) {
        Ok(nodes) => nodes,
        Err(exit) => return exit,
    };
    if !args.yes {
        match confirmed(&key, nodes.count()) {
            Some(true) => {}
            Some(false) => return Exit::CONFLICT,
            None => {
                output::complain("nobody is there to be asked: add --yes to end the lock");
                return Exit::USAGE;
            }
        }
    }
    let mut question = cmd("DLOCK.BREAK");
    question.arg(key.as_bytes());
    if let Some(token) = &token {
        question.arg(token);
    }
    let answers = nodes
        .each(move |mut node| {
            let question = question.clone();
            async move {
                let answer = node.run(&question).await?;
                inspection::number(&answer).ok_or_else(|| "it answers nonsense".to_owned())
            }
        })
        .await;
    report(&key, &answers, nodes.majority(), global.json)
}

/// `None`: there is no terminal.
fn confirmed(key: &Key, nodes: usize) -> Option<bool> {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return None;
    }
    let nodes = if nodes == 1 { "one node".to_owned() } else { format!("{nodes} nodes") };
    eprint!("End the lock {key} on {nodes}? Whoever holds it may still be at work. [y/N] ");
    let _ = io::stderr().flush();
    let mut answer = String::new();
    let read = io::stdin().lock().read_line(&mut answer);
    Some(read.is_ok() && ["y", "yes"].contains(&answer.trim().to_lowercase().as_str()))
}

fn report(key: &Key, answers: &Answers<i64>, majority: usize, as_json: bool) -> Exit {
    let mut ended = 0;
    let mut answered = 0;
    for (name, answer) in answers {
        if let Ok(leases) = answer {
            ended += leases;
            answered += 1;
        }
        let line = match answer {
            Ok(leases) => bytes::about(key, json!({"node": name, "ended": leases})),
            Err(error) => bytes::about(key, json!({"node": name, "error": error})),
        };
        let printed = match answer {
            _ if as_json => output::json(&line),
            Ok(1) => writeln!(io::stdout(), "{name}: 1 lease ended"),
            Ok(leases) => writeln!(io::stdout(), "{name}: {leases} leases ended"),
            Err(error) => {
                output::complain(format_args!("{name}: {error}"));
                Ok(())
            }
        };
        // It is done all the same: the exit code says so.
        if printed.is_err() {
            break;
        }
    }
    match (answered >= majority, ended) {
        (false, _) => Exit::NO_QUORUM,
        (true, 0) => Exit::CONFLICT,
        (true, _) => Exit::OK,
    }
}

const NOTES: &str = "\
Its holder is not told: it finds out when it renews its lease. Exits with 1 if nobody held the lock,
69 if no majority of the nodes answered: somebody may still hold it then.";
