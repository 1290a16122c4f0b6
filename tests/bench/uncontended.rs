//! An uncontended lock, beside the lock libraries in use today: the time to take it. All in turns, each time
//! in a new process.

use harness::Kind;

use crate::measure::{Compared, median};
use crate::nodes::Nodes;
use crate::options::Options;
use crate::peers::{BARE, COMMANDS, DLOCK, NODES, PEERS, Peer, so_many_nodes};
use crate::report::{Report, Row, Target};

/// This many acquisitions are one figure.
const ACQUISITIONS: usize = 1000;

/// One library on this many nodes, and its figure of each round, in microseconds.
struct Series {
    /// Its place in tables.
    place: usize,
    peer: &'static Peer,
    nodes: usize,
    medians: Vec<f64>,
}

/// Adds the figures.
pub fn run(kind: Kind, options: &Options, report: &mut Report) {
    let [_, most] = NODES;
    let nodes = Nodes::start(kind, most, None).expect("servers start");
    let addresses = nodes.addresses();
    let mut all = Vec::new();
    for nodes in NODES {
        for peer in [&DLOCK, &BARE].into_iter().chain(&PEERS).chain([&COMMANDS]) {
            if peer.nodes.contains(&nodes) {
                all.push(Series { place: all.len(), peer, nodes, medians: Vec::new() });
            }
        }
    }
    // Not counted: the first time is always different.
    go_round(&mut all, &addresses, 1, report);
    all.iter_mut().for_each(|one| one.medians.clear());
    for _ in 0..options.rounds(10) {
        go_round(&mut all, &addresses, ACQUISITIONS, report);
        // Another begins the next time.
        all.rotate_left(1);
    }
    all.sort_by_key(|one| one.place);
    add(&all, report);
}

/// Measures each once more; a library that fails is left out from then on.
fn go_round(all: &mut Vec<Series>, addresses: &[String], count: usize, report: &mut Report) {
    all.retain_mut(|one| {
        let measure = || one.peer.uncontended(&addresses[..one.nodes], count);
        match one.peer.installed().and_then(|()| measure()) {
            Ok(took) => {
                one.medians.push(median(took));
                true
            }
            Err(why) => {
                let what = format!("{ACQUIRE}, {}, {}", so_many_nodes(one.nodes), one.peer.name);
                report.not_measured(what, why);
                false
            }
        }
    });
}

fn add(all: &[Series], report: &mut Report) {
    let find = |peer: &Peer, nodes| {
        all.iter().find(|one| one.peer.name == peer.name && one.nodes == nodes)
    };
    let mut add = |what: String, ours: &Series, against: &str, theirs: &Series, target| {
        let pairs = ours.medians.iter().zip(&theirs.medians).map(|(our, their)| [*our, *their]);
        let compared = Compared::of_pairs(&pairs.collect::<Vec<_>>());
        report.add(Row::compared(what, against, "µs", compared, target));
    };
    for nodes in NODES {
        let Some(ours) = find(&DLOCK, nodes) else { continue };
        for theirs in all.iter().filter(|one| one.nodes == nodes && one.peer.name != DLOCK.name) {
            let what = format!("{ACQUIRE}, {}", so_many_nodes(nodes));
            // Redlock in the same language: at least as fast.
            let same_kind = nodes > 1 && theirs.peer.name == PEERS[0].name;
            let target = if same_kind { Target::AtMost(1.0) } else { Target::None };
            add(what, ours, theirs.peer.name, theirs, target);
        }
    }
    // The cost of four more nodes, beside their cost to another.
    let [one, several] = NODES;
    for (peer, target) in [(&DLOCK, Target::AtMost(1.5)), (&PEERS[0], Target::None)] {
        let what = format!("{}: {ACQUIRE}, {}", peer.name, so_many_nodes(several));
        let against = so_many_nodes(one);
        if let (Some(ours), Some(theirs)) = (find(peer, several), find(peer, one)) {
            add(what, ours, &against, theirs, target);
        }
    }
}

const ACQUIRE: &str = "acquire, p50";
