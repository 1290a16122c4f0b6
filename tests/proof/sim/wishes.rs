//! The wishes of clients: when they come, and with what they ask.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use dlock_core::limits::MAX_FENCE;
use dlock_core::quorum::{Acquisition, Plan, Rules, node_timeout};
use dlock_core::words::Patience;
use dlock_core::{Fence, Millis, Mode};

use super::life::AGREES;
use super::map::Kind;
use super::task::{Machine, Means, Task};
use super::truth::Truth;
use super::world::{Event, GATE, World};

impl<R: Rules> World<R> {
    /// The first events.
    pub(super) fn begin(&mut self) {
        for server in 0..self.servers.len() {
            self.start(server);
            let after = self.dice.between(1, 500_000);
            self.later(after, Event::StateFile { server });
        }
        for process in 0..self.processes.len() {
            let after = self.dice.between(1, 50_000);
            self.later(after, Event::Spawn { process });
        }
        if self.map.is_some() {
            self.calm();
            return self.later(1_000_000, Event::Close);
        }
        self.later(10_000, Event::Fault);
        if self.attack.is_some() {
            self.later(10_000, Event::Attack);
        }
        let calm = self.dice.one_of(&[3_000_000, 10_000_000, 30_000_000]);
        self.later(calm, Event::Calm);
        let takes_long = self.attack.is_some() || self.servers[0].loses_disk;
        let more = if takes_long { AGREES + 5_000_000 } else { 8_000_000 };
        self.later(calm + more, Event::Close);
    }

    pub(super) fn spawn(&mut self, process: usize) {
        if self.closed {
            return;
        }
        let pause = self.dice.one_of(&[5_000, 100_000, 1_000_000]);
        let pause = if self.map.is_some() { 5_000 } else { pause };
        let after = self.dice.between(1_000, pause);
        self.later(after, Event::Spawn { process });
        let of = |task: &&Task<R>| task.process == process && !task.is_over();
        if self.tasks.iter().filter(of).count() >= 2 {
            return;
        }
        let ttl = Millis(self.dice.one_of(&[200, 1_000, 1_000, 3_000, 10_000]));
        let key = self.dice.below(self.keys.len());
        let key = self.keys[key].clone();
        let mode = if self.dice.chance(200) { Mode::Shared } else { Mode::Exclusive };
        let wait = self.dice.one_of(&[
            Patience::Try,
            Patience::Forever,
            Patience::Forever,
            Patience::Within(Duration::from_millis(300)),
            Patience::Within(Duration::from_secs(5)),
        ]);
        let (mode, wait) =
            if self.map.is_some() { (Mode::Exclusive, Patience::Forever) } else { (mode, wait) };
        // The dice are always thrown in the same order, so that a seed stays the same life.
        let start_at_gate =
            (self.dice.chance(300) || !self.tries_first()) && !self.servers[GATE].is_deaf;
        let suspects = self.suspects(process);
        let seed = self.dice.number();
        let timeout = self.node_timeout(ttl, seed);
        let means = self.means(ttl);
        let plan = Plan {
            nodes: self.nodes,
            ttl,
            timeout,
            wait,
            start_at_gate,
            again: means.again.then_some(Fence(MAX_FENCE)),
            suspects,
            seen: self.processes[process].seen,
            seed,
        };
        let time = self.processes[process].clock.time(self.now);
        let acquisition = Acquisition::by(self.rules.clone(), plan, time);
        let task = self.tasks.len();
        self.tasks.push(Task {
            process,
            key,
            mode,
            wait,
            timeout,
            machine: Machine::Trying(Box::new(acquisition)),
            begun: self.now,
            open: BTreeMap::new(),
            waits: BTreeMap::new(),
            requests: BTreeMap::new(),
            newest: BTreeMap::new(),
            disowned: BTreeSet::new(),
            ended: None,
            heard_since: BTreeSet::new(),
            truth: Truth::default(),
            raised: false,
            attempt: 0,
            means,
            is_astray: false,
            finishes_since: 0,
            alarm: 0,
        });
        if self.tells {
            let Task { key, mode, wait, .. } = &self.tasks[task];
            let name = String::from_utf8_lossy(&key.name);
            self.say(format!(
                "task {task} of process {process} wants {name} {mode}, ttl {ttl:?}, wait {wait:?}"
            ));
        }
        if let Some(patience) = means.patience {
            self.later(patience, Event::GiveUp { task });
        }
        self.pump(task);
    }

    /// The time-out of a node, by chance: some users have set an hour.
    fn node_timeout(&self, ttl: Millis, chance: u64) -> Millis {
        let set = (self.map.is_none() && !self.is_library && chance.is_multiple_of(4))
            .then_some(Duration::from_secs(3600));
        Millis(node_timeout(set, Duration::from_millis(ttl.0)).as_millis() as u64)
    }

    /// True if some clients ask all nodes before they queue.
    fn tries_first(&self) -> bool {
        self.map.as_ref().is_none_or(|map| map.kind == Kind::Deaf)
    }

    /// The nodes that it takes for failed.
    fn suspects(&mut self, process: usize) -> Vec<bool> {
        let mut suspects = self.processes[process].suspects.clone();
        if self.map.as_ref().is_some_and(|map| map.kind == Kind::AnyGate) {
            suspects[GATE] = self.dice.chance(500);
        }
        suspects
    }

    fn means(&mut self, ttl: Millis) -> Means {
        if self.map.is_some() {
            let longest = self.dice.one_of(&[1, 1_000, 20_000]);
            let hold = self.dice.between(0, longest);
            let (lengthen, finishes, patience) = (None, None, None);
            return Means { hold, renews: true, lengthen, finishes, again: false, patience };
        }
        let longest = self.dice.one_of(&[1_000, 100_000, 1_000_000, 3 * ttl.0 * 1_000]);
        let patience = self.dice.one_of(&[3_000, 300_000, 3_000_000]);
        let factor = self.dice.one_of(&[0, 0, 0, 0, 0, 0, 0, 0, 4, 1_000]);
        // Longer ones would outlast the run.
        let short = ttl.0 <= 200 && self.pairs.is_empty();
        let factor = if short { factor } else { factor.min(4) };
        let longest = if factor > 4 { 10_000_000 } else { longest };
        let longest = if self.is_library { longest.max(4 * ttl.0 * 1_000) } else { longest };
        let finishes = (self.has_jobs && self.dice.chance(500))
            .then(|| Millis(self.dice.one_of(&[300, 1_000, 4_000, 20_000])));
        Means {
            finishes,
            again: self.has_jobs && self.dice.chance(150),
            hold: self.dice.between(100, longest),
            renews: self.dice.chance(750),
            lengthen: (factor > 0).then_some(Millis(ttl.0 * factor)),
            patience: self.dice.chance(150).then(|| self.dice.between(0, patience)),
        }
    }
}
