//! `dlock break`: ends leases that somebody else holds.

use std::ffi::OsString;
use std::io::{self, BufRead, IsTerminal, Write};

use redis::cmd;
use serde_json::json;

use crate::args::Global;
use crate::ask::{Answers, Nodes};
use crate::exit::Exit;
use crate::{bytes, inspection, output};

/// End a lock that somebody else holds
#[derive(Debug, clap::Args)]
#[command(after_help = NOTES)]
pub struct Args {
    /// The lock
    key: OsString,

    /// Only this holder, as `dlock inspect --tokens` shows it
    token: Option<OsString>,

    /// KEY and TOKEN are written as `dlock ls` shows them, as in \x00
    #[arg(long)]
    escaped: bool,

    /// Do not ask
    #[arg(short, long)]
    yes: bool,
}

pub async fn main(args: Args, global: &Global) -> Exit {
    let key = bytes::typed(args.key, args.escaped);
    let token = args.token.map(|token| bytes::typed(token, args.escaped)).transpose();
    let (key, token) = match key.and_then(|key| token.map(|token| (key, token))) {
        Ok(both) => both,
        Err(error) => {
            output::complain(error);
            return Exit::USAGE;
        }
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
    question.arg(&key);
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
fn confirmed(key: &[u8], nodes: usize) -> Option<bool> {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return None;
    }
    let nodes = if nodes == 1 { "one node".to_owned() } else { format!("{nodes} nodes") };
    eprint!(
        "End the lock {} on {nodes}? Whoever holds it may still be at work. [y/N] ",
        bytes::shown(key)
    );
    let _ = io::stderr().flush();
    let mut answer = String::new();
    let read = io::stdin().lock().read_line(&mut answer);
    Some(read.is_ok() && ["y", "yes"].contains(&answer.trim().to_lowercase().as_str()))
}

fn report(key: &[u8], answers: &Answers<i64>, majority: usize, as_json: bool) -> Exit {
    let mut ended = 0;
    let mut answered = 0;
    for (name, answer) in answers {
        if let Ok(leases) = answer {
            ended += leases;
            answered += 1;
        }
        let line = match answer {
            Ok(leases) => json!({"node": name, "key": bytes::shown(key), "ended": leases}),
            Err(error) => json!({"node": name, "key": bytes::shown(key), "error": error}),
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
