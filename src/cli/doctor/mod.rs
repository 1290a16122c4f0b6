//! `dlock doctor`: finds settings that make the nodes unsafe or slow, and fixes for them.
//!
//! [`collect`] asks the nodes for [`facts`], and [`checks`] turns them into each [`finding`]: a check is a
//! function of the facts.

mod check;
mod checks;
mod collect;
mod facts;
mod finding;
pub mod limits;
mod node;
mod reserve;
mod server;
mod set;

#[cfg(test)]
mod tests;

use std::io::{self, IsTerminal};

use serde_json::json;

use crate::global::Global;
use crate::nodes::ask::Nodes;
use crate::say::exit::Exit;
use crate::say::failure::Failure;
use crate::say::stdout;
use facts::Facts;
use finding::{Finding, Severity};

/// Look for what makes the nodes unsafe, and say how to fix it
#[derive(Debug, clap::Args)]
#[command(after_help = NOTES)]
pub struct Args {}

impl Args {
    pub async fn run(self, global: &Global) -> Result<Exit, Failure> {
        let nodes = Nodes::of(global)?;
        let facts = collect::facts(&nodes).await;
        let mut findings = checks::findings(&facts);
        let reserves = collect::reserves(&nodes, &facts).await;
        findings.extend(reserves.iter().flat_map(reserve::findings));
        findings = finding::merged(findings);
        let reached = set::count(&facts, |facts| facts.answers.is_ok());
        let summary = Summary::of(&findings, &facts, reached);
        if global.json {
            print_json(&findings, &summary)?;
        } else {
            stdout::print(text(&findings, &summary))?;
        }
        Ok(match summary {
            _ if reached < nodes.majority() => Exit::NO_QUORUM,
            Summary { errors: 0, warnings: 0, .. } => Exit::OK,
            _ => Exit::CONFLICT,
        })
    }
}

/// Numbers of findings.
struct Summary {
    nodes: usize,
    /// Number of servers: more than nodes if a cluster is among them.
    servers: usize,
    reached: usize,
    errors: usize,
    warnings: usize,
    hints: usize,
}

impl Summary {
    fn of(findings: &[Finding], facts: &[Facts], reached: usize) -> Summary {
        let (nodes, servers) = (set::count(facts, |_| true), facts.len());
        let count = |severity| findings.iter().filter(|one| one.severity == severity).count();
        let (errors, warnings) = (count(Severity::Error), count(Severity::Warning));
        Summary { nodes, servers, reached, errors, warnings, hints: count(Severity::Hint) }
    }

    fn sentence(&self) -> String {
        let mut nodes = counted(self.nodes, "node");
        if self.servers > self.nodes {
            nodes.push_str(&format!(" of {}", counted(self.servers, "server")));
        }
        if self.errors + self.warnings + self.hints == 0 {
            return format!("{nodes}, everything checked is in order");
        }
        let (errors, warnings) = (counted(self.errors, "error"), counted(self.warnings, "warning"));
        format!("{nodes}: {errors}, {warnings}, {}", counted(self.hints, "hint"))
    }
}

fn text(findings: &[Finding], summary: &Summary) -> String {
    let mut text = String::new();
    let is_coloured = io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    for finding in findings {
        let severity = match (is_coloured, finding.severity) {
            (false, severity) => severity.name().to_owned(),
            (true, Severity::Error) => format!("\x1b[1;31m{}\x1b[0m", Severity::Error.name()),
            (true, Severity::Warning) => format!("\x1b[1;33m{}\x1b[0m", Severity::Warning.name()),
            (true, Severity::Hint) => format!("\x1b[1;36m{}\x1b[0m", Severity::Hint.name()),
        };
        let (place, Finding { found, why, fix, .. }) =
            (place(&finding.nodes, summary.servers), finding);
        text.push_str(&format!("{severity}{place}: {found}\n  why: {why}\n  fix: {fix}\n\n"));
    }
    text.push_str(&format!("{}\n", summary.sentence()));
    text
}

/// The affected nodes, as a part of the finding's line.
fn place(named: &[String], all: usize) -> String {
    match named {
        [] => String::new(),
        _ if named.len() == all && all > 1 => format!(", all {all} nodes"),
        _ => format!(", {}", named.join(", ")),
    }
}

fn print_json(findings: &[Finding], summary: &Summary) -> Result<(), Failure> {
    for finding in findings {
        stdout::json(&json!({
            "severity": finding.severity.name(),
            "check": finding.check,
            "nodes": finding.nodes,
            "found": finding.found,
            "why": finding.why,
            "fix": finding.fix,
        }))?;
    }
    stdout::json(&json!({
        "nodes": summary.nodes,
        "reached": summary.reached,
        "errors": summary.errors,
        "warnings": summary.warnings,
        "hints": summary.hints,
    }))
}

fn counted(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

const NOTES: &str = "\
It changes nothing on the nodes. Exits with 0 if there are neither errors nor warnings, 1 if there are,
69 if no majority of the nodes answers.";
