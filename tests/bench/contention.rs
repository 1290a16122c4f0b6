//! One lock that many want, beside the lock libraries that people use today: how long one waits,
//! and whether all get the same. See [`peers`](crate::peers) for the rules.

use std::time::Duration;

use harness::{Kind, Server};

use crate::measure::Compared;
use crate::options::Options;
use crate::peers::{self, COMMANDS, Crowd, DLOCK, NODES, PEERS, Peer, Wait, Waits};
use crate::report::{Report, Row, Target};

/// How many clients there are, and for how many milliseconds each holds the lock.
const CROWDS: [(u64, u64); 2] = [(16, 5), (100, 1)];

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
        let (clients, hold) = (self.crowd.clients, self.crowd.hold.as_millis());
        let nodes = peers::so_many_nodes(self.nodes);
        format!("{clients} clients, each holds it for {hold} ms, {nodes}")
    }

    /// The setting in a few words.
    pub fn setting(&self) -> String {
        setting(self.crowd, self.nodes)
    }

    /// Whether two libraries did the same.
    pub fn same_setting(&self, other: &Contest) -> bool {
        (self.kind, self.nodes, self.crowd) == (other.kind, other.nodes, other.crowd)
    }

    /// How long one round is in which each client has the lock once and no time is lost in between,
    /// in milliseconds.
    pub fn ideal(&self) -> f64 {
        self.crowd.clients as f64 * self.crowd.hold.as_secs_f64() * 1e3
    }
}

fn setting(crowd: Crowd, nodes: usize) -> String {
    format!("{} × {} ms, {}", crowd.clients, crowd.hold.as_millis(), peers::so_many_nodes(nodes))
}

/// Adds the figures.
pub fn run(kind: Kind, options: &Options, report: &mut Report) {
    let seconds = if options.quick { 3 } else { 10 };
    let crowds = CROWDS.map(|(clients, hold)| {
        let hold = Duration::from_millis(hold);
        Crowd { clients, hold, seconds }
    });
    let settings = crowds.into_iter().flat_map(|crowd| NODES.map(|nodes| (crowd, nodes)));
    for (number, (crowd, nodes)) in settings.enumerate() {
        let mut libraries: Vec<&Peer> = [&DLOCK].into_iter().chain(&PEERS).collect();
        libraries.push(&COMMANDS);
        libraries.retain(|one| nodes == 1 || one.several_nodes);
        // Another begins each time: the machine may be slower later, or faster.
        let first = number % libraries.len();
        let mut contests = Vec::new();
        for place in (first..libraries.len()).chain(0..first) {
            let peer = libraries[place];
            let what = format!("{}, {}", peer.name, setting(crowd, nodes));
            report.attempt(&what, |report| match contest(kind, nodes, crowd, peer) {
                Ok(contest) => contests.push((place, contest)),
                Err(why) => report.not_measured(&what, why),
            });
        }
        contests.sort_by_key(|(place, _)| *place);
        let contests: Vec<Contest> = contests.into_iter().map(|(_, contest)| contest).collect();
        // Without ours there is nothing to compare.
        if contests.first().is_some_and(|first| first.name == DLOCK.name) {
            add(kind, contests, report);
        }
    }
}

/// On new servers: nothing is left of the library before.
fn contest(kind: Kind, nodes: usize, crowd: Crowd, peer: &Peer) -> Result<Contest, String> {
    let servers: Vec<Server> = (0..nodes).map(|_| Server::start(kind)).collect();
    let waits = peer.contended(&servers, crowd)?;
    Ok(Contest { kind, nodes, crowd, name: peer.name, waits })
}

/// Ours is the first.
fn add(kind: Kind, contests: Vec<Contest>, report: &mut Report) {
    let ours = &contests[0];
    add_ours(kind, ours, report);
    for theirs in &contests[1..] {
        add_compared(kind, ours, theirs, report);
    }
    for contest in contests {
        let failures = contest.waits.failures;
        if failures > 0 {
            let (name, setting) = (contest.name, contest.setting());
            let last = &contest.waits.complaint;
            report.note(format!("{name}, {setting}: {failures} failures, the last is: {last}"));
        }
        report.contest(contest);
    }
}

fn add_ours(kind: Kind, ours: &Contest, report: &mut Report) {
    let name = |what: &str| format!("{what}, {}", ours.setting());
    let (most, least) = if ours.nodes == 1 { (1.3, 0.99) } else { (1.5, 0.95) };
    let p99 = ours.waits.percentile(0.99);
    let compared = Compared::once(p99.ms, ours.ideal());
    let row =
        Row::compared(name("p99 wait"), "clients × hold", "ms", compared, Target::AtMost(most));
    report.add(kind, row.at_least(p99.at_least, false));
    let row = |what, figure, target| Row::alone(name(what), "", figure, target);
    report.add(kind, row("Jain's index", ours.waits.fairness(), Target::AtLeast(least)));
    report.add(kind, row("failures", ours.waits.failures as f64, Target::AtMost(0.0)));
    report.add(kind, row("held share of time", ours.waits.held_share(), Target::None));
}

fn add_compared(kind: Kind, ours: &Contest, theirs: &Contest, report: &mut Report) {
    // Our own commands are there to be seen, and not to be beaten.
    let ahead = theirs.name != COMMANDS.name;
    let mut add = |what: &str, unit, figure: &dyn Fn(&Waits) -> Wait, target| {
        let [our, their] = [ours, theirs].map(|contest| figure(&contest.waits));
        let name = format!("{what}, {}", ours.setting());
        let target = if ahead { target } else { Target::None };
        let row = Row::compared(name, theirs.name, unit, Compared::once(our.ms, their.ms), target);
        report.add(kind, row.at_least(our.at_least, their.at_least));
    };
    let exact = |ms: f64| Wait { ms, at_least: false };
    add("p50 wait", "ms", &|waits| waits.percentile(0.5), Target::None);
    add("p99 wait", "ms", &|waits| waits.percentile(0.99), Target::AtMost(1.0));
    add("longest wait", "ms", &Waits::longest, Target::None);
    // Two that serve in turn differ by the client at which the time was over.
    add("Jain's index", "", &|waits| exact(waits.fairness()), Target::AtLeast(0.999));
    add("grants", "/s", &|waits| exact(waits.rate()), Target::None);
}
