//! The servers' knowledge of leases that they do not have, and the longest possible wait.
//!
//! A server that takes over waits for leases that it may not know of. If it was told the longest lease in
//! use, it waits that long; if not, it waits for [`UNKNOWN`], which is much longer. That must not be taken
//! for the length of any lease, nor outlive the quarantine that an operator has ended.

use dlock_core::quorum::{Rules, State};
use dlock_core::{Millis, Policy, Promise};

use super::judge;
use super::life::token;
use super::server::Server;
use super::task::{Machine, Task};
use super::world::World;

/// A server's knowledge of the length of leases that it may not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Knows {
    /// All of it.
    #[default]
    All,
    /// The server has a new primary, or its data set, and nothing of its stream.
    Untold,
    /// The server has as much knowledge as its primary, which was told nothing itself.
    AsMuch,
}

/// A server's knowledge. It may be waiting for leases that no server knew.
#[derive(Clone, Copy, Debug)]
pub struct Knowledge {
    /// Its knowledge of its primary's leases.
    pub knows: Knows,
    /// True if it took over, or started again, without knowing all.
    pub waits: bool,
    /// The number of looks at its state file since it has all knowledge.
    looks: u32,
}

impl Default for Knowledge {
    fn default() -> Knowledge {
        Knowledge { knows: Knows::All, waits: false, looks: LOOKS + 1 }
    }
}

impl Knowledge {
    /// True if it may wait for much longer than any lease that is in use.
    pub fn may_wait(&self) -> bool {
        self.waits || self.knows != Knows::All
    }

    /// Part of the stream has arrived. Its first message is the primary's promise.
    pub fn hears(&mut self) {
        if self.knows == Knows::Untold {
            self.knows = Knows::All;
        }
    }

    /// Its primary has told what it promised, and may wait for long itself.
    pub fn is_told(&mut self, may_wait: bool) {
        let all = !may_wait;
        if all != (self.knows == Knows::All) {
            self.looks = 0;
        }
        self.knows = if all { Knows::All } else { Knows::AsMuch };
    }

    /// The server takes over, and waits for leases that it does not know.
    pub fn takes_over(&mut self) {
        self.waits |= self.knows != Knows::All;
        self.knows = Knows::All;
    }

    /// The server starts again with its state file, which may say what was true a moment ago. One that follows
    /// has been told nothing yet.
    pub fn starts(&mut self, leads: bool) {
        let waits = self.may_wait() || self.looks <= LOOKS;
        let knows = if leads { Knows::All } else { Knows::Untold };
        *self = Knowledge { waits, knows, ..Knowledge::default() };
    }
}

impl Server {
    /// Its quarantine is over: an operator knows that there are no holders.
    pub fn end_quarantine(&mut self, now: u64) {
        let before = self.node.settings.quarantine;
        self.node.settings.quarantine = Policy::Off;
        self.node.sweep(&mut self.host, self.clock.time(now), 100, true);
        self.node.settings.quarantine = before;
        self.knowledge = Knowledge { looks: 0, ..Knowledge::default() };
    }
}

impl<R: Rules> World<R> {
    /// An operator ends long quarantines where there are no holders that the server does not know.
    pub(super) fn end_quarantines(&mut self) {
        for node in 0..self.nodes {
            let place = self.leader(node);
            let server = &self.servers[place];
            let waits = server.knowledge.waits && server.is_up && self.speaks(place);
            let has = |key: &_, token: &[u8]| server.host.holder(key, token).is_some();
            // The judge forgets a lease that no promise covers, and the server may lack its last renewal: its holder
            // may go on.
            let goes_on = |(place, task): (usize, &Task<R>)| {
                let Machine::Holding(hold) = &task.machine else { return false };
                let holder = server.host.holder(&task.key, &token(place, task.attempt));
                let ends = holder.map(|holder| server.true_end(holder.grant().lease.end));
                let State::Held(claim) = hold.state() else { return ends.is_none() };
                ends.is_none_or(|ends| ends < self.when(place, claim.until))
            };
            let may_hold = self.judge.may_hold(node, server.time(self.now).now, has)
                || self.tasks.iter().enumerate().any(goes_on);
            if waits && !may_hold {
                self.say(format!("an operator ends the quarantine of server {place}"));
                self.servers[place].end_quarantine(self.now);
                self.settle(place);
            }
        }
    }

    /// A server leads from now on.
    pub(super) fn check_wait(&mut self, place: usize) {
        let server = &self.servers[place];
        let left =
            server.node.durable.in_quarantine().map(|all| all.left(server.time(self.now).now));
        let left = left.unwrap_or_default();
        let is_pair = self.pairs.contains_key(&self.node_of(place));
        if is_pair && left > LONGEST && !server.knowledge.may_wait() {
            self.judge.accuse(judge::NO_LONGER, format!("server {place} waits for {left:?}"));
        }
    }

    /// A primary tells its replica what it has promised.
    pub(super) fn check_told(&mut self, place: usize, promise: &Promise) {
        let may_wait = self.servers[place].knowledge.may_wait();
        let told = if may_wait { promise.bound } else { promise.longest() };
        if told > LONGEST {
            self.judge.accuse(judge::NO_LONGER, format!("server {place} tells {promise:?}"));
        }
    }

    /// A server has looked at its state file, which says for how long it would wait after a crash.
    pub(super) fn check_file(&mut self, place: usize) {
        if !self.pairs.contains_key(&self.node_of(place)) {
            return;
        }
        let server = &mut self.servers[place];
        let knowledge = &mut server.knowledge;
        let fails = knowledge.may_wait() || server.host.disk_is_full;
        knowledge.looks = if fails { 0 } else { knowledge.looks + 1 };
        let says = server.file.says.as_ref().map_or(Millis(0), |file| file.longest());
        if says > LONGEST && server.knowledge.looks > LOOKS {
            let how = format!(
                "the file of server {place} says {says:?}: {:?}",
                server.node.durable.in_quarantine()
            );
            self.judge.accuse(judge::NO_LONGER, how);
        }
    }
}

/// A server that was told nothing assumes leases of this length, in milliseconds.
pub const UNKNOWN: u64 = 150_000;
/// No bound of leases that are in use is longer: those are of 40 s at most.
const LONGEST: Millis = Millis(65_536);
/// This many looks later a state file is as it should be: one begins to write it, and the next one
/// ends that.
const LOOKS: u32 = 3;
