//! One contended lock, beside the lock libraries in use today: the length of a wait, and fairness. See
//! [`peers`](crate::peers) for the rules.

use std::time::Duration;

use harness::Kind;

use crate::measure::Compared;
use crate::nodes::{Nodes, Ping};
use crate::options::Options;
use crate::peers::{COMMANDS, Crowd, DLOCK, NODES, PEERS, Peer, Waits, so_many_nodes};
use crate::report::{Report, Row, Target};

/// The number of clients, and the milliseconds of each hold.
pub const CROWDS: [(u64, u64); 2] = [(16, 5), (100, 1)];

/// The setting of a measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setting {
    /// The servers.
    pub kind: Kind,
    /// The number of nodes.
    pub nodes: usize,
    /// The clients that want the lock.
    pub crowd: Crowd,
    /// The distance of the nodes from the clients and from each other, each way; none if on this
    /// machine.
    pub each_way: Option<Duration>,
}

impl Setting {
    /// The setting in a few words.
    pub fn name(&self) -> String {
        let (clients, hold) = (self.crowd.clients, self.crowd.hold.as_millis());
        format!("{clients} × {hold} ms, {}{}", so_many_nodes(self.nodes), self.away())
    }

    fn away(&self) -> String {
        let away = |each_way: Duration| format!(", {} ms away", each_way.as_secs_f64() * 1e3);
        self.each_way.map(away).unwrap_or_default()
    }

    /// The length of a round without lost time, in milliseconds. Each client has the lock once in it.
    fn ideal(&self) -> f64 {
        self.crowd.clients as f64 * self.crowd.hold.as_secs_f64() * 1e3
    }
}

/// One library in one setting.
#[derive(Clone, Debug)]
pub struct Contest {
    /// The setting.
    pub setting: Setting,
    /// The library, as tables name it.
    pub name: &'static str,
    /// The measured waits.
    pub waits: Waits,
    /// The time of a PING over the same links meanwhile.
    pub ping: Option<Ping>,
}

impl Contest {
    /// The time between two holders, in milliseconds.
    pub fn hand_over(&self) -> f64 {
        1e3 / self.waits.rate() - self.waits.hold
    }
}

/// Adds the figures.
pub fn run(kind: Kind, options: &Options, report: &mut Report) {
    let seconds = if options.quick { 3 } else { 10 };
    let settings = settings(kind, seconds, &NODES, None);
    let mut libraries = vec![&DLOCK, &COMMANDS];
    libraries.extend(&PEERS);
    for (number, setting) in settings.into_iter().enumerate() {
        let contests = contests(setting, &libraries, number, report);
        // Without ours there is nothing to compare.
        if contests.first().is_some_and(|first| first.name == DLOCK.name) {
            add(&contests, report);
        }
        report.contests(&contests);
    }
}

/// Both crowds on each of these numbers of nodes.
pub fn settings(
    kind: Kind,
    seconds: u64,
    nodes: &[usize],
    each_way: Option<Duration>,
) -> Vec<Setting> {
    let crowds = CROWDS.map(|(clients, hold)| {
        let hold = Duration::from_millis(hold);
        Crowd { clients, hold, seconds }
    });
    let all =
        |crowd| nodes.iter().map(move |nodes| Setting { kind, nodes: *nodes, crowd, each_way });
    crowds.into_iter().flat_map(all).collect()
}

/// All libraries that can be compared in a setting, in their order; what fails is noted.
pub fn contests(
    setting: Setting,
    libraries: &[&Peer],
    number: usize,
    report: &mut Report,
) -> Vec<Contest> {
    let mut libraries = libraries.to_vec();
    libraries.retain(|one| one.nodes.contains(&setting.nodes));
    // Another begins each time: the machine may be slower later, or faster.
    let first = number % libraries.len();
    let mut contests = Vec::new();
    for place in (first..libraries.len()).chain(0..first) {
        let peer = libraries[place];
        let what = format!("{}, {}", peer.name, setting.name());
        report.attempt(&what, |report| match contest(setting, peer) {
            Ok(contest) => contests.push((place, contest)),
            Err(why) => report.not_measured(&what, why),
        });
    }
    contests.sort_by_key(|(place, _)| *place);
    contests.into_iter().map(|(_, contest)| contest).collect()
}

/// Measures on new nodes: no state is left of the library before.
fn contest(setting: Setting, peer: &Peer) -> Result<Contest, String> {
    peer.installed()?;
    let Setting { kind, crowd, each_way, .. } = setting;
    let nodes = Nodes::start(kind, setting.nodes, each_way)?;
    let (waits, ping) = nodes.beside_ping(|| peer.contended(&nodes.addresses(), crowd));
    Ok(Contest { setting, name: peer.name, waits: waits?, ping })
}

/// Ours is the first.
fn add(contests: &[Contest], report: &mut Report) {
    let ours = &contests[0];
    add_ours(ours, report);
    for theirs in &contests[1..] {
        add_compared(ours, theirs, report);
    }
}

fn add_ours(ours: &Contest, report: &mut Report) {
    let name = |what: &str| format!("{what}, {}", ours.setting.name());
    let compared = Compared::once(ours.waits.percentile(0.99), ours.setting.ideal());
    report.add(Row::compared(name("p99 wait"), "clients × hold", "ms", compared, Target::None));
    let row = |what, figure, target| Row::alone(name(what), "", figure, target);
    report.add(row("Jain's index", ours.waits.fairness(), Target::AtLeast(0.999)));
    report.add(row("failures", ours.waits.failures as f64, Target::AtMost(0.0)));
}

fn add_compared(ours: &Contest, theirs: &Contest, report: &mut Report) {
    // Our own commands are shown, and need not be beaten. A client that polls and takes the lock again at once
    // hands nothing over: its many grants are quick, and unfair.
    let is_ours = theirs.name == COMMANDS.name;
    let target = if is_ours { Target::None } else { Target::AtMost(1.0) };
    let mut add = |what: &str, unit, figure: &dyn Fn(&Waits) -> f64, target| {
        let [our, their] = [ours, theirs].map(|contest| figure(&contest.waits));
        let name = format!("{what}, {}", ours.setting.name());
        report.add(Row::compared(name, theirs.name, unit, Compared::once(our, their), target));
    };
    add("p99 wait", "ms", &|waits| waits.percentile(0.99), target);
    add("Jain's index", "", &Waits::fairness, Target::None);
    add("grants", "/s", &Waits::rate, Target::None);
}
