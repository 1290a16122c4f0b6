//! A lock that nobody else wants, beside the lock libraries that people use today: how long it
//! takes to have it. All in turns, each time in a new process.

use harness::{Kind, Server};

use crate::measure::{Compared, median};
use crate::options::Options;
use crate::peers::{BARE, COMMANDS, DLOCK, NODES, PEERS, Peer, so_many_nodes};
use crate::report::{Report, Row, Target};

/// So many acquisitions are one figure.
const ACQUISITIONS: usize = 1000;

/// One library on so many nodes, and its figure of each round, in microseconds.
struct Series {
    peer: &'static Peer,
    nodes: usize,
    medians: Vec<f64>,
}

/// Adds the figures.
pub fn run(kind: Kind, options: &Options, report: &mut Report) {
    match measure(kind, options.rounds(10)) {
        Ok(all) => add(kind, &all, report),
        Err(why) => report.give_up(why),
    }
}

fn measure(kind: Kind, rounds: usize) -> Result<Vec<Series>, String> {
    let servers: Vec<Server> = (0..NODES[1]).map(|_| Server::start(kind)).collect();
    let mut all = Vec::new();
    for nodes in NODES {
        for peer in [&DLOCK, &BARE].into_iter().chain(&PEERS).chain([&COMMANDS]) {
            if nodes == 1 || peer.several_nodes {
                all.push(Series { peer, nodes, medians: Vec::new() });
            }
        }
    }
    // Not counted: the first time is never like the others.
    for one in &mut all {
        one.peer.uncontended(&servers[..one.nodes], 1)?;
    }
    for round in 0..rounds {
        // Another begins each time.
        let first = round % all.len();
        let (before, after) = all.split_at_mut(first);
        for one in after.iter_mut().chain(before) {
            let took = one.peer.uncontended(&servers[..one.nodes], ACQUISITIONS)?;
            one.medians.push(median(took));
        }
    }
    Ok(all)
}

fn add(kind: Kind, all: &[Series], report: &mut Report) {
    let find = |peer: &Peer, nodes| {
        let found = all.iter().find(|one| one.peer.name == peer.name && one.nodes == nodes);
        found.expect("it was measured")
    };
    let mut add = |what: String, ours: &Series, against: &str, theirs: &Series, target| {
        let pairs = ours.medians.iter().zip(&theirs.medians).map(|(our, their)| [*our, *their]);
        let compared = Compared::of_pairs(&pairs.collect::<Vec<_>>());
        report.add(kind, Row::compared(what, against, "µs", compared, target));
    };
    for nodes in NODES {
        let ours = find(&DLOCK, nodes);
        for theirs in all.iter().filter(|one| one.nodes == nodes && one.peer.name != DLOCK.name) {
            let what = format!("{ACQUIRE}, {}", so_many_nodes(nodes));
            // Redlock in the same language: at least as fast.
            let same_kind = nodes > 1 && theirs.peer.name == PEERS[0].name;
            let target = if same_kind { Target::AtMost(1.0) } else { Target::None };
            add(what, ours, theirs.peer.name, theirs, target);
        }
    }
    // What four more nodes cost, beside what they cost another.
    let [one, several] = NODES;
    for (peer, target) in [(&DLOCK, Target::AtMost(1.5)), (&PEERS[0], Target::None)] {
        let what = format!("{}: {ACQUIRE}, {}", peer.name, so_many_nodes(several));
        let against = so_many_nodes(one);
        add(what, find(peer, several), &against, find(peer, one), target);
    }
}

const ACQUIRE: &str = "acquire, p50";
