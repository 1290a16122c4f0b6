//! The tables of the page, and the words around them.

use std::fmt::Write;

use harness::Kind;

use super::paint::time;
use super::settings;
use crate::contention::Contest;
use crate::peers::Wait;
use crate::report::{Report, Row};

/// Titles of groups that have pictures.
pub const CONTENTION: &str = "One lock that many want";
/// The same.
pub const UNCONTENDED: &str = "A lock that nobody else wants";
/// The same.
pub const GROWTH: &str = "Much of everything";

/// What was measured, where, when and how.
pub fn head(
    machine: &str,
    today: &str,
    command: &str,
    servers: &[(Kind, String)],
    report: &Report,
) -> String {
    let servers: Vec<String> =
        servers.iter().map(|(kind, version)| format!("{} ({version})", kind.name())).collect();
    let mut libraries: Vec<&str> = Vec::new();
    for contest in &report.contests {
        let name = contest.waits.library.as_str();
        if !libraries.contains(&name) {
            libraries.push(name);
        }
    }
    let mut head = format!(
        "# How fast dlock is\n\n\
         Measured on {today} with `{command}`, all on one machine: {machine}.\n\n\
         Servers: {}.\n",
        servers.join(", ")
    );
    if !libraries.is_empty() {
        let _ = writeln!(head, "\nLibraries: {}.", libraries.join(", "));
    }
    head
}

/// How many targets are reached, and which are not.
pub fn verdicts(report: &Report) -> String {
    let verdicts: Vec<bool> = report.rows().filter_map(|(_, row)| row.reached()).collect();
    let reached = verdicts.iter().filter(|reached| **reached).count();
    let mut text = format!("\n{reached} of {} targets are reached", verdicts.len());
    if reached == verdicts.len() {
        return text + ".\n";
    }
    text += "; missed are:\n\n";
    for (kind, row) in report.rows().filter(|(_, row)| row.reached() == Some(false)) {
        let bound = row.bound().unwrap_or_default();
        let [figure, _] = row.figures();
        let figure = row.ratio.map_or(figure, |ratio| format!("{ratio:.2}"));
        let (server, what, whom) = (kind.name(), &row.what, row.beside_whom());
        let _ = writeln!(text, "- {server}: {what}{whom}: {figure}, and not {bound}");
    }
    text
}

/// The tables of one group.
pub fn section(report: &Report, title: &str) -> String {
    let mut rows: Vec<(Kind, &Row)> = Vec::new();
    for section in report.sections.iter().filter(|section| section.title == title) {
        rows.extend(section.rows.iter().map(|row| (section.kind, row)));
    }
    if title != CONTENTION {
        return by_server(&rows);
    }
    // The libraries have tables of their own.
    let library = |row: &Row| report.contests.iter().any(|one| one.name == row.against);
    rows.retain(|(_, row)| !library(row));
    let mut text = RULES.to_owned();
    for libraries in settings(&report.contests) {
        text += &contest(&libraries);
    }
    text + &by_server(&rows)
}

const RULES: &str = "
A client asks, waits, holds the lock for a while, gives it back, and asks again at once. For all the
same: a process for each library, a thread, task or coroutine for each client, with connections of
its own; the same servers, with the module loaded; leases of 10 s. Each library waits as it does by
default, and none gives up: node-redlock would after ten attempts, and is set to go on. A wait that
is not over at the end counts with what it was until then; where it is the figure that is asked for,
there is a ≥. Holds are as long as the language can make them. Where clients poll, whoever gives the
lock back is the first to ask again: most waits are then over at once, and a few are very long.
";

/// A row for each library in one setting.
fn contest(libraries: &[&Contest]) -> String {
    let (ours, ideal) = (libraries[0], time(libraries[0].ideal()));
    let crowd = ours.crowd;
    let mut text = format!(
        "\n### {}\n\nFor {} s, on {}; clients × hold is {ideal}.\n\n\
         | | p50 wait | p99 wait | to dlock's | longest wait | Jain's index | grants a second | \
         hold | failures |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|\n",
        ours.heading(),
        crowd.seconds,
        ours.kind.name()
    );
    let own = ours.waits.percentile(0.99);
    for one in libraries {
        let waits = &one.waits;
        let [p50, p99, longest] =
            [waits.percentile(0.5), waits.percentile(0.99), waits.longest()].map(shown);
        let _ = writeln!(
            text,
            "| {} | {p50} | {p99} | {} | {longest} | {:.3} | {:.0} | {} | {} |",
            one.name,
            ratio(waits.percentile(0.99), own),
            waits.fairness(),
            waits.rate(),
            time(waits.hold),
            waits.failures
        );
    }
    text
}

fn shown(wait: Wait) -> String {
    format!("{}{}", if wait.cut_off { "≥ " } else { "" }, time(wait.ms))
}

/// Nothing, if nobody knows.
fn ratio(theirs: Wait, ours: Wait) -> String {
    let ratio = theirs.ms / ours.ms;
    match (theirs.cut_off, ours.cut_off) {
        (false, false) => format!("{ratio:.2}"),
        (true, false) => format!("≥ {ratio:.2}"),
        (false, true) => format!("≤ {ratio:.2}"),
        (true, true) => String::new(),
    }
}

/// A row for each figure, a column for each server.
fn by_server(rows: &[(Kind, &Row)]) -> String {
    let mut kinds: Vec<Kind> = Vec::new();
    let mut names: Vec<(&str, &str)> = Vec::new();
    for (kind, row) in rows {
        if !kinds.contains(kind) {
            kinds.push(*kind);
        }
        if !names.contains(&(&row.what, &row.against)) {
            names.push((&row.what, &row.against));
        }
    }
    let heads: Vec<&str> = kinds.iter().map(|kind| kind.name()).collect();
    let mut text = format!("\n| | to | {} | target |\n|---|---|", heads.join(" | "));
    text += &"--:|".repeat(kinds.len() + 1);
    text.push('\n');
    for (what, against) in names {
        let same = |row: &Row| row.what == what && row.against == against;
        let cell = |kind: &Kind| {
            let found = rows.iter().find(|(on, row)| on == kind && same(row));
            found.map(|(_, row)| cell(row)).unwrap_or_default()
        };
        let cells: Vec<String> = kinds.iter().map(cell).collect();
        let bound = rows.iter().filter(|(_, row)| same(row)).find_map(|(_, row)| row.bound());
        let bound = bound.unwrap_or_default();
        let _ = writeln!(text, "| {what} | {against} | {} | {bound} |", cells.join(" | "));
    }
    text
}

fn cell(row: &Row) -> String {
    let [ours, theirs] = row.figures().map(|text| text.trim().to_owned());
    let mark = if row.reached() == Some(false) { " missed" } else { "" };
    match (row.ratio, theirs.is_empty()) {
        (Some(ratio), _) => format!("**{ratio:.2}** ({ours} / {theirs}){mark}"),
        (None, true) => format!("**{ours}**{mark}"),
        (None, false) => format!("**{ours}** / {theirs}{mark}"),
    }
}
