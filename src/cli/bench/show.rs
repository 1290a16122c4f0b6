//! The results, in the form that the user chose; by default as tables.

use super::contended::Contended;
use super::cycle::Cycle;
use super::figures::{Percentile, Times};
use super::greet::Met;
use super::json;
use super::quorum::Quorum;
use crate::nodes::ask::Answers;
use crate::say::duration::measured as time;
use crate::say::failure::Failure;
use crate::say::stdout;
use crate::say::table::Table;

/// In which form.
pub struct Show {
    pub json: bool,
}

impl Show {
    /// The nodes. Not in JSON, where each line belongs to a part.
    pub fn nodes(&self, met: &Answers<Met>) -> Result<(), Failure> {
        if self.json {
            return Ok(());
        }
        let mut table = Table::new(&["NODE", "SERVER", "MODULE"]);
        for (name, met) in met {
            let unknown = || "unknown".to_owned();
            table.row(match met {
                Ok(Met { server, module: Ok(version), .. }) => {
                    vec![name.clone(), server.clone().unwrap_or_else(unknown), version.clone()]
                }
                Ok(Met { server, module: Err(error), .. }) => {
                    vec![name.clone(), server.clone().unwrap_or_else(unknown), error.clone()]
                }
                Err(trouble) => vec![name.clone(), trouble.to_string()],
            });
        }
        let there = met.iter().filter(|(_, met)| met.is_ok()).count();
        stdout::line(headcount(met.len(), there))?;
        table.print()
    }

    pub fn cycles(&self, rows: &[(String, Result<Cycle, String>)]) -> Result<(), Failure> {
        if self.json {
            return rows.iter().try_for_each(|(name, row)| stdout::json(&json::cycle(name, row)));
        }
        let mut table = Table::new(&[
            "NODE",
            "ACQUIRE p50",
            "p99",
            "RELEASE p50",
            "p99",
            "PING p50",
            "CYCLES/S",
        ]);
        for (name, row) in rows {
            let mut cells = vec![name.clone()];
            match row {
                Ok(row) => cells.extend([
                    time(row.acquire.p50()),
                    time(row.acquire.p99()),
                    time(row.release.p50()),
                    time(row.release.p99()),
                    pinged(&row.ping),
                    format!("{:.0}", row.per_second()),
                ]),
                Err(error) => cells.push(error.clone()),
            }
            table.row(cells);
        }
        let title = "\ncycle: one client takes and releases a free lock, on each node by itself";
        stdout::line(title)?;
        table.print()
    }

    pub fn quorum(&self, found: &Quorum) -> Result<(), Failure> {
        if self.json {
            return stdout::json(&json::quorum(found));
        }
        let mut table = Table::new(&[
            "ACQUIRE p50",
            "p99",
            "MAX",
            "RELEASE p50",
            "PING ALL p50",
            "ACQUIRE/PING",
            "FAILURES",
        ]);
        table.row(vec![
            time(found.acquire.p50()),
            time(found.acquire.p99()),
            time(found.acquire.max()),
            time(found.release.p50()),
            pinged(&found.ping_all),
            found.to_ping().map_or(NOTHING.to_owned(), |ratio| format!("{ratio:.2}")),
            found.failures.to_string(),
        ]);
        let title = match found.nodes {
            1 => "\nquorum: the same by the library, over the one node".to_owned(),
            nodes => format!("\nquorum: the same by the library, over all {nodes} nodes at once"),
        };
        let failed = found.last_failure.as_ref().map(|failure| {
            format!("{} failed, and are in no percentile; the last: {failure}", found.failures)
        });
        stdout::line(title)?;
        table.print()?;
        failed.iter().try_for_each(stdout::line)
    }

    pub fn contended(&self, found: &Contended) -> Result<(), Failure> {
        if self.json {
            return stdout::json(&json::contended(found));
        }
        let (clients, hold, took) = (found.clients(), time(found.hold), time(found.took));
        let want = if clients == 1 { "client wants" } else { "clients want" };
        stdout::line(format_args!(
            "\ncontended: {clients} {want} one lock, for {hold} each; {took}"
        ))?;
        grants(found).print()?;
        waits(found).print()?;
        notes(found).iter().try_for_each(stdout::line)
    }
}

fn headcount(all: usize, there: usize) -> String {
    let nodes = if all == 1 { "node" } else { "nodes" };
    match there {
        _ if there == all && all > 1 => format!("{all} nodes, all answer"),
        0 => format!("{all} {nodes}, none answers"),
        1 => format!("{all} {nodes}, 1 answers"),
        _ => format!("{all} {nodes}, {there} answer"),
    }
}

fn grants(found: &Contended) -> Table {
    let counts = &found.counts;
    let mut table =
        Table::new(&["GRANTS", "PER SECOND", "HELD", "LEAST", "MOST", "JAIN", "FAILURES"]);
    table.row(vec![
        counts.total().to_string(),
        format!("{:.1}", found.per_second()),
        format!("{:.1} %", found.held_share() * 100.0),
        counts.least().to_string(),
        counts.most().to_string(),
        found.jain().map_or(NOTHING.to_owned(), |jain| format!("{jain:.4}")),
        counts.failures.to_string(),
    ]);
    table
}

fn waits(found: &Contended) -> Table {
    let mut table =
        Table::new(&["WAIT p50", "p90", "p99", "p99.9", "MAX", "ONE ROUND", "P99/ROUND"]);
    let mut cells: Vec<String> =
        [0.5, 0.9, 0.99, 0.999, 1.0].map(|share| wait(found.counts.waits.at(share))).into();
    cells.push(time(found.one_round()));
    cells.push(found.p99_to_round().map_or(NOTHING.to_owned(), |ratio| format!("{ratio:.2}")));
    table.row(cells);
    table
}

fn wait(percentile: Option<Percentile>) -> String {
    match percentile {
        Some(Percentile::Exactly(wait)) => time(wait),
        Some(Percentile::AtLeast(wait)) => format!("≥ {}", time(wait)),
        None => NOTHING.to_owned(),
    }
}

/// Notes beside the tables.
fn notes(found: &Contended) -> Vec<String> {
    let (counts, clients) = (&found.counts, found.clients());
    let mut notes = Vec::new();
    if counts.cold > 0 {
        notes.push(format!(
            "not warm: {} of {clients} clients had not had the lock once when the clock began",
            counts.cold
        ));
    }
    if counts.unserved > 0 {
        notes.push(format!(
            "{} of {clients} clients were still waiting at the end, so nobody knows how long their \
             waits would have been (≥). Measure for longer: --time",
            counts.unserved
        ));
    }
    if let Some(failure) = &counts.last_failure
        && counts.failures > 0
    {
        notes.push(format!("the last failure: {failure}"));
    }
    notes
}

fn pinged(times: &Times) -> String {
    if times.is_empty() { NOTHING.to_owned() } else { time(times.p50()) }
}

const NOTHING: &str = "-";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_said_how_many_answer() {
        let expected = [
            (1, 1, "1 node, 1 answers"),
            (1, 0, "1 node, none answers"),
            (3, 1, "3 nodes, 1 answers"),
            (3, 2, "3 nodes, 2 answer"),
            (3, 3, "3 nodes, all answer"),
        ];
        for (all, there, text) in expected {
            assert_eq!(headcount(all, there), text);
        }
    }
}
