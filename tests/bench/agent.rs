//! `dlock agent` by redis-py, beside the library for Rust over as many nodes and bare round trips over the agent's
//! socket. All in turns, each time in new processes.

use harness::Kind;

use crate::contention::{Contest, Setting, contests, settings};
use crate::measure::{Compared, median};
use crate::nodes::Nodes;
use crate::options::Options;
use crate::peers::{AT_AGENT, Crowd, DLOCK, NODES, Peer, TRIPS, so_many_nodes};
use crate::report::{Report, Row, Target};

/// This many locks are one figure.
const LOCKS: usize = 1000;

/// Adds the figures.
pub fn run(kind: Kind, options: &Options, report: &mut Report) {
    for (nodes, most) in NODES.into_iter().zip([1.25, 1.15]) {
        let what = format!("acquire + release, p50, {}", so_many_nodes(nodes));
        report.attempt(&what, |report| {
            let target = Target::AtMost(most);
            let trip = alone(kind, nodes, &what, target, options.rounds(10), report) / 2e3;
            let seconds = if options.quick { 3 } else { 10 };
            for (number, setting) in settings(kind, seconds, &[nodes], None).into_iter().enumerate()
            {
                let contests = contests(setting, &[&DLOCK, &AT_AGENT], number, report);
                if let [library, agent] = &contests[..] {
                    among(library, agent, after_a_pause(setting) - trip, report);
                }
            }
        });
    }
}

/// Takes and releases an uncontended lock. Returns the time of two round trips, in microseconds.
fn alone(
    kind: Kind,
    nodes: usize,
    what: &str,
    target: Target,
    rounds: usize,
    report: &mut Report,
) -> f64 {
    let nodes = Nodes::start(kind, nodes, None).expect("servers start");
    let addresses = nodes.addresses();
    let middle = |peer: &Peer| median(peer.pairs(&addresses, LOCKS).expect("it is measured"));
    let all: Vec<[f64; 3]> = (0..=rounds)
        .map(|_| [&AT_AGENT, &DLOCK, &TRIPS].map(middle))
        .skip(1) // The first time is never like the others.
        .collect();
    let pairs: Vec<_> =
        all.iter().map(|[agent, library, trips]| [*agent, library + trips]).collect();
    let compared = Compared::of_pairs(&pairs);
    report.add(Row::compared(what, "library + 2 PINGs", "µs", compared, target));
    let trips = median(all.iter().map(|[.., trips]| *trips).collect());
    report.add(Row::alone(format!("{what}: 2 PINGs"), "µs", trips, Target::None));
    trips
}

/// The time of two round trips, the second one after a pause as long as a hold: a sleeping process wakes up
/// slowly. In milliseconds.
fn after_a_pause(setting: Setting) -> f64 {
    let nodes = Nodes::start(setting.kind, 1, None).expect("a server starts");
    let crowd = Crowd { clients: 1, ..setting.crowd };
    let waits = TRIPS.contended(&nodes.addresses(), crowd).expect("it is measured");
    Contest { setting, name: TRIPS.name, waits, ping: None }.hand_over()
}

/// Many clients want one lock; a round trip after a pause takes this many milliseconds.
fn among(library: &Contest, agent: &Contest, trip: f64, report: &mut Report) {
    let Contest { setting, waits, .. } = agent;
    let name = |what: &str| format!("{what}, {}", setting.name());
    let compared = Compared::once(agent.hand_over(), library.hand_over() + trip);
    let row =
        Row::compared(name("hand-over"), "library + PING", "ms", compared, Target::AtMost(1.15));
    report.add(row);
    let row = |what, figure, target| Row::alone(name(what), "", figure, target);
    report.add(row("Jain's index", waits.fairness(), Target::AtLeast(0.999)));
    report.add(row("failures", waits.failures as f64, Target::AtMost(0.0)));
}
