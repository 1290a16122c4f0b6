//! One lock that many want, beside the lock libraries that people use today: how long one waits,
//! and whether all get the same. See [`peers`](crate::peers) for the rules.

use std::time::Duration;

use harness::{Kind, Server};

use crate::measure::Compared;
use crate::options::Options;
use crate::peers::{COMMANDS, Crowd, DLOCK, PEERS, Peer, Wait, Waits};
use crate::report::{Report, Row, Target};

/// How many clients there are, and for how many milliseconds each holds the lock.
const CROWDS: [(u64, u64); 2] = [(16, 5), (100, 1)];
const NODES: [usize; 2] = [1, 5];

/// One library in one setting.
#[derive(Clone, Debug)]
pub struct Contest {
    /// On which servers.
    pub kind: Kind,
    /// How many of them.
    pub nodes: usize,
    /// Who wants the lock.
    pub crowd: Crowd,
    /// The library, as tables name it.
    pub name: &'static str,
    /// What was measured.
    pub waits: Waits,
}

impl Contest {
    /// The setting in a line of its own.
    pub fn heading(&self) -> String {
        let nodes = if self.nodes == 1 { "1 node" } else { "5 nodes" };
        let (clients, hold) = (self.crowd.clients, self.crowd.hold.as_millis());
        format!("{clients} clients, each holds it for {hold} ms, {nodes}")
    }

    /// The setting in a few words.
    pub fn setting(&self) -> String {
        let nodes = if self.nodes == 1 { "1 node" } else { "5 nodes" };
        format!("{} × {} ms, {nodes}", self.crowd.clients, self.crowd.hold.as_millis())
    }

    /// Whether two libraries did the same.
    pub fn same_setting(&self, other: &Contest) -> bool {
        (self.kind, self.nodes, self.crowd) == (other.kind, other.nodes, other.crowd)
    }

    /// What a wait would be if the lock went round without any time in between, in milliseconds.
    pub fn ideal(&self) -> f64 {
        self.crowd.clients as f64 * self.crowd.hold.as_secs_f64() * 1e3
    }
}

/// Adds the figures.
pub fn run(kind: Kind, options: &Options, report: &mut Report) {
    if let Err(why) = measure(kind, options, report) {
        report.give_up(why);
    }
}

fn measure(kind: Kind, options: &Options, report: &mut Report) -> Result<(), String> {
    let five: Vec<Server> = (0..5).map(|_| Server::start(kind)).collect();
    let seconds = if options.quick { 3 } else { 10 };
    for (clients, hold) in CROWDS {
        let crowd = Crowd { clients, hold: Duration::from_millis(hold), seconds };
        for nodes in NODES {
            let contest = |peer: &Peer| -> Result<Contest, String> {
                let waits = peer.contended(&five[..nodes], crowd)?;
                Ok(Contest { kind, nodes, crowd, name: peer.name, waits })
            };
            let ours = contest(&DLOCK)?;
            add_ours(kind, &ours, report);
            report.contest(ours.clone());
            for peer in
                PEERS.iter().chain([&COMMANDS]).filter(|one| nodes == 1 || one.several_nodes)
            {
                let theirs = contest(peer)?;
                // Our own commands are there to be seen, and not to be beaten.
                let ahead = peer.name != COMMANDS.name;
                add_compared(kind, &ours, &theirs, ahead, report);
                report.contest(theirs);
            }
        }
    }
    Ok(())
}

fn add_ours(kind: Kind, ours: &Contest, report: &mut Report) {
    let name = |what: &str| format!("{what}, {}", ours.setting());
    let (most, least) = if ours.nodes == 1 { (1.3, 0.99) } else { (1.5, 0.95) };
    let (p99, ideal) = (ours.waits.percentile(0.99), ours.ideal());
    let compared = Compared { ours: p99.ms, theirs: ideal, ratio: p99.ms / ideal };
    let row =
        Row::compared(name("p99 wait"), "clients × hold", "ms", compared, Target::AtMost(most));
    report.add(kind, row.at_least(p99.cut_off, false));
    let row = |what, figure, target| Row::alone(name(what), "", figure, target);
    report.add(kind, row("Jain's index", ours.waits.fairness(), Target::AtLeast(least)));
    report.add(kind, row("held share of time", ours.waits.held_share(), Target::None));
}

fn add_compared(kind: Kind, ours: &Contest, theirs: &Contest, ahead: bool, report: &mut Report) {
    let mut add = |what: &str, unit, figure: &dyn Fn(&Waits) -> Wait, target| {
        let [our, their] = [ours, theirs].map(|contest| figure(&contest.waits));
        let compared = Compared { ours: our.ms, theirs: their.ms, ratio: our.ms / their.ms };
        let name = format!("{what}, {}", ours.setting());
        let target = if ahead { target } else { Target::None };
        let row = Row::compared(name, theirs.name, unit, compared, target);
        report.add(kind, row.at_least(our.cut_off, their.cut_off));
    };
    let exact = |ms: f64| Wait { ms, cut_off: false };
    add("p50 wait", "ms", &|waits| waits.percentile(0.5), Target::None);
    add("p99 wait", "ms", &|waits| waits.percentile(0.99), Target::AtMost(1.0));
    add("longest wait", "ms", &Waits::longest, Target::None);
    // Two that serve in turn differ by the client at which the time was over.
    add("Jain's index", "", &|waits| exact(waits.fairness()), Target::AtLeast(0.999));
    add("grants", "/s", &|waits| exact(waits.rate()), Target::None);
}
