//! One contended lock, on distant nodes: the time of a hand-over beside that of the links. See
//! [`peers`](crate::peers) for the rules, and [`links`](crate::links) for the links.

use std::time::Duration;

use harness::Kind;

use crate::contention::{Contest, contests, settings};
use crate::measure::Compared;
use crate::options::Options;
use crate::peers::{DLOCK, NODES, PEERS, Peer};
use crate::report::{Report, Row, Target};

/// The length of the links, each way, in microseconds: another rack, another hall, another city.
const LINKS: [u64; 3] = [250, 1000, 5000];

/// Adds the figures.
pub fn run(kind: Kind, options: &Options, report: &mut Report) {
    let seconds = if options.quick { 2 } else { 5 };
    let libraries: Vec<&Peer> = [&DLOCK].into_iter().chain(&PEERS).collect();
    let links = LINKS.map(Duration::from_micros);
    let settings = links.map(|each_way| settings(kind, seconds, &NODES, Some(each_way)));
    for (number, setting) in settings.into_iter().flatten().enumerate() {
        let contests = contests(setting, &libraries, number, report);
        if contests.first().is_some_and(|first| first.name == DLOCK.name) {
            add(&contests, report);
        }
        report.contests(&contests);
    }
}

/// Ours is the first.
fn add(contests: &[Contest], report: &mut Report) {
    let ours = &contests[0];
    let name = |what: &str| format!("{what}, {}", ours.setting.name());
    if let Some(ping) = ours.ping {
        let compared = Compared::once(ours.hand_over(), ping.ms);
        let target = target(ours);
        report.add(Row::compared(name("hand-over"), "PING", "ms", compared, target));
        let compared = Compared::once(ping.ms, ping.wanted);
        report.add(Row::compared(name("PING"), "2 × link", "ms", compared, Target::None));
    }
    let row = |what, figure, target| Row::alone(name(what), "", figure, target);
    report.add(row("failures", ours.waits.failures as f64, Target::AtMost(0.0)));
    for theirs in &contests[1..] {
        let compared = Compared::once(ours.waits.rate(), theirs.waits.rate());
        let ahead = Target::AtLeast(1.0);
        report.add(Row::compared(name("turns"), theirs.name, "/s", compared, ahead));
    }
}

/// The target, in round trips. Over shorter links most of the time goes into waking up.
fn target(ours: &Contest) -> Target {
    match ours.setting.each_way.map(|each_way| each_way.as_millis()) {
        Some(5) => Target::AtMost(1.25),
        Some(1) => Target::AtMost(1.4),
        _ => Target::None,
    }
}
