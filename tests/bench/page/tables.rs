//! The tables of the page, and the words around them.

use std::fmt::Write;

use harness::Kind;

use super::paint::time;
use super::settings;
use crate::contention::Contest;
use crate::peers::Wait;
use crate::report::{Gap, NOT_MEASURED, Report, Row, Verdict, digits};

/// The title of the group with contenders. Groups with these titles have pictures.
pub const CONTENTION: &str = "One lock that many want";
/// The title of the group over links.
pub const DISTANCE: &str = "The same over links with a length";
/// The title of the group without contenders.
pub const UNCONTENDED: &str = "A lock that nobody else wants";
/// The title of the group with much of everything.
pub const GROWTH: &str = "Much of everything";

/// The page's head: the subject, the machine, the day and the command.
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

/// The list of gaps, if there are any.
pub fn gaps(report: &Report, to_come: &[(Kind, &str)]) -> String {
    let mut text = String::new();
    for (kind, Gap { what, why }) in report.gaps() {
        let why = why.trim().replace('\n', "\n  ");
        let _ = writeln!(text, "- {NOT_MEASURED} on {}: {what}: {why}", kind.name());
    }
    for (kind, title) in to_come {
        let _ = writeln!(text, "- not yet measured on {}: {title}", kind.name());
    }
    if text.is_empty() { text } else { format!("\n**Not all was measured:**\n\n{text}") }
}

/// The number of targets that are reached, and the others.
pub fn verdicts(report: &Report) -> String {
    let (reached, all, others) = report.verdicts();
    let mut text = format!("\n{reached} of {all} targets are reached");
    if others.is_empty() {
        return text + ".\n";
    }
    text += "; missed are:\n\n";
    for (kind, row) in others {
        let (bound, figure) = (row.bound().unwrap_or_default(), row.figure_text());
        let unit = if row.ratio.is_none() { row.unit } else { "" };
        let figure = format!("{figure} {unit}").trim().to_owned();
        let not = match row.verdict() {
            Some(Verdict::Unproved) => "which does not prove",
            _ => "and not",
        };
        let (server, what, whom) = (kind.name(), &row.what, row.beside_whom());
        let _ = writeln!(text, "- {server}: {what}{whom}: {figure}, {not} {bound}");
    }
    text
}

/// The tables of one group.
pub fn section(report: &Report, title: &str) -> String {
    let mut rows: Vec<(Kind, &Row)> = Vec::new();
    for section in report.sections.iter().filter(|section| section.title == title) {
        rows.extend(section.rows.iter().map(|row| (section.kind, row)));
    }
    let mut text = match title {
        CONTENTION => format!("{RULES}{SETTINGS}"),
        DISTANCE => AWAY.to_owned(),
        UNCONTENDED => format!("{FREE}{SETTINGS}"),
        _ => String::new(),
    };
    if title == CONTENTION || title == DISTANCE {
        // The libraries have tables of their own.
        let library = |row: &Row| report.contests.iter().any(|one| one.name == row.against);
        rows.retain(|(_, row)| !library(row));
        for libraries in settings(&report.contests, title == DISTANCE) {
            text += &if title == DISTANCE { distant(&libraries) } else { contest(&libraries) };
        }
    }
    let gaps: Vec<(Kind, &str)> = report
        .sections
        .iter()
        .filter(|section| section.title == title)
        .flat_map(|section| section.gaps.iter().map(|gap| (section.kind, gap.what.as_str())))
        .collect();
    if !rows.is_empty() || !gaps.is_empty() {
        text += &by_server(&rows, &gaps);
    }
    for section in report.sections.iter().filter(|section| section.title == title) {
        for note in &section.notes {
            let _ = writeln!(text, "\n{note}");
        }
    }
    text
}

const RULES: &str = "
A client asks, waits, holds the lock for a while, gives it back, and asks again at once. For all the
same: a process for each library, a thread, task or coroutine for each client, with connections of
its own; new servers for each run, with the module loaded; leases of 10 s. Each library waits as it
does by default. etcd and ZooKeeper have three members each, and their defaults: unlike a Redis they
write every step to disk before they answer. One that gives up is asked again at once: @sesamecare-oss/redlock, after ten
retries. rslock, too, begins again at once after three attempts, without a pause between.

A loop without a pause is the worst case for libraries that poll: whoever gives the lock back is the
first to ask again, most waits are over at once, and a few are very long. In a service whose clients
pause between two locks the difference is smaller.

A wait that is not over at the end counts with its length so far, as Kaplan and Meier do it;
otherwise starvation would be hidden. What nobody can know for that reason has a ≥. *Clients × hold*
is the length of one round in which each client has the lock once and no time is lost in between.
Jain's index is 1 if all have the lock as often. Holds are as long as the language can make them.

*BLPOP + LPUSH by bare sockets* is no lock: a token goes round through a list on one node. That is
what passing something on by way of a server takes at least on this machine, where waking up those
who sleep is most of it.
";

const AWAY: &str = "
The same crowds, while each piece of data takes its time on its way: from a client to a node and back,
and between the members of etcd and ZooKeeper, as if each were on a machine of its own. A *hand-over*
is a turn less the hold that was measured: the time in which nobody has the lock, between two who have
it. It is given in round trips, each a PING over such a link while the library works. A PING that is
off by more than 3 % of what it should be is named below.
";

const FREE: &str = "
One client takes a lock that is free and gives it back, again and again; measured is how long taking
it lasts. All libraries in turns, another first each time, each in a new process that works for a
second before it is measured; the middle of all rounds. *Bare sockets* are the same two commands
over blocking sockets, without any library: one write for each node, then one read for each node.
That is what this machine can do at best.
";

const SETTINGS: &str = "
Settings: redis-py has its parser in C (hiredis). Its `socket_timeout` is None for python-redis-lock
and for DLOCK.ACQUIRE, since both wait in the server for longer than its 5 s. Python's clients are
threads with connections of their own, in one process in which one thread runs at a time; Node.js's
share one event loop. In the processes of all libraries the kernel ends sleeps in time (timer slack
of 1 ns instead of 50 µs); the servers are left as they are.
";

/// A row for each library in one setting.
fn contest(libraries: &[&Contest]) -> String {
    let (ours, ideal) = (libraries[0], time(libraries[0].setting.ideal()));
    let crowd = ours.setting.crowd;
    let mut text = format!(
        "\n### {}\n\nOne run of {} s each, on {}; one round, clients × hold, is {ideal}.\n\n\
         | | p50 wait | p99 wait | to dlock's | longest seen | Jain's index | grants a second | \
         hold | failures |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|\n",
        ours.setting.heading(),
        crowd.seconds,
        ours.setting.kind.name()
    );
    let own = ours.waits.percentile(0.99);
    for one in libraries {
        let waits = &one.waits;
        let [p50, p99, longest] =
            [waits.percentile(0.5), waits.percentile(0.99), waits.longest()].map(shown);
        let _ = writeln!(
            text,
            "| {} | {p50} | {p99} | {} | {longest} | {:.4} | {:.0} | {} | {} |",
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

/// The same over links.
fn distant(libraries: &[&Contest]) -> String {
    let ours = libraries[0];
    let setting = ours.setting;
    let mut text = format!(
        "\n### {}\n\nOne run of {} s each, on {}.\n\n\
         | | turns a second | dlock's to it | hand-over | in round trips | PING | p99 wait | \
         Jain's index | failures |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|\n",
        setting.heading(),
        setting.crowd.seconds,
        setting.kind.name()
    );
    for one in libraries {
        let (waits, hand_over) = (&one.waits, one.hand_over());
        let ping = one.ping.map_or(f64::NAN, |ping| ping.ms);
        let _ = writeln!(
            text,
            "| {} | {} | {:.2} | {} | {:.2} | {} | {} | {:.4} | {} |",
            one.name,
            digits(waits.rate()),
            ours.waits.rate() / waits.rate(),
            time(hand_over),
            hand_over / ping,
            time(ping),
            shown(waits.percentile(0.99)),
            waits.fairness(),
            waits.failures
        );
    }
    text
}

fn shown(wait: Wait) -> String {
    format!("{}{}", if wait.at_least { "≥ " } else { "" }, time(wait.ms))
}

/// Nothing, if nobody knows.
fn ratio(theirs: Wait, ours: Wait) -> String {
    let ratio = digits(theirs.ms / ours.ms);
    match (theirs.at_least, ours.at_least) {
        (false, false) => ratio,
        (true, false) => format!("≥ {ratio}"),
        (false, true) => format!("≤ {ratio}"),
        (true, true) => String::new(),
    }
}

/// A row for each figure, a column for each server. What could not be measured on one server has
/// the row that it has on the others, or one of its own.
fn by_server(rows: &[(Kind, &Row)], gaps: &[(Kind, &str)]) -> String {
    let there = |kind: &Kind| {
        rows.iter().any(|(on, _)| on == kind) || gaps.iter().any(|(on, _)| on == kind)
    };
    let kinds: Vec<Kind> = Kind::ALL.into_iter().filter(there).collect();
    let mut names: Vec<(&str, &str)> = Vec::new();
    for (_, row) in rows {
        if !names.contains(&(&row.what, &row.against)) {
            names.push((&row.what, &row.against));
        }
    }
    for (_, what) in gaps {
        if !names.iter().any(|(named, _)| named == what) {
            names.push((what, ""));
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
            let missing = || gaps.iter().any(|gap| gap == &(*kind, what));
            let unknown = || if missing() { NOT_MEASURED.to_owned() } else { String::new() };
            found.map_or_else(unknown, |(_, row)| cell(row))
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
    let mark = match row.verdict() {
        Some(Verdict::Missed) => " missed",
        Some(Verdict::Unproved) => " not proved",
        _ => "",
    };
    match (row.ratio, theirs.is_empty()) {
        (Some(_), _) => format!("**{}** ({ours} / {theirs}){mark}", row.figure_text()),
        (None, true) => format!("**{ours}**{mark}"),
        (None, false) => format!("**{ours}** / {theirs}{mark}"),
    }
}
