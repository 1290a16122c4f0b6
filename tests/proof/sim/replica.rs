//! A server that follows another one, and takes over. It makes the same calls as the module.

use dlock_core::quorum::{Answer, Ask, Obstacle};
use dlock_core::{Fence, Instant, Millis, Policy, Promise, Time};

use super::flaw::Flaw;
use super::knowledge::{Knows, UNKNOWN};
use super::server::Server;
use super::stream::Sent;

impl Server {
    /// Takes in a message from its primary.
    pub fn hear(&mut self, sent: Sent, now: u64) {
        let time = self.time(now);
        if self.flaw == Some(Flaw::ReplicaEnds) {
            self.host.retain(|value| value.first_end().is_none_or(|end| !end.is_over(time.now)));
        }
        match sent {
            Sent::DataSet(grants) => {
                self.node.follow(&mut self.host, time.now);
                self.host.clear();
                for (key, mode, holder) in grants {
                    let grant = holder.grant();
                    self.node.heard_of(key.as_key(), grant.fence, grant.lease.ttl);
                    self.host.load(&key, mode, &holder, time.now);
                }
                self.knowledge.knows = Knows::Untold;
                self.node.durable.untold();
            }
            Sent::Effect(effect) => {
                self.knowledge.hears();
                // A lease that is extended may not be there any more: the primary decides.
                effect.carry_out(&mut self.node, &mut self.host, time);
            }
            Sent::Promise(promise, may_wait) => {
                self.knowledge.is_told(may_wait);
                self.node.durable.inherit(self.understood(promise), time.now);
            }
        }
    }

    fn understood(&self, promise: Promise) -> Promise {
        match self.flaw {
            Some(Flaw::PromotedWithoutFence) => Promise { fence: Fence(0), unix: 0, ..promise },
            Some(Flaw::QuarantineOfWhatArrived) => Promise { bound: Millis(0), ..promise },
            Some(Flaw::HandsNothingOn) => Promise { quarantine: Millis(0), ..promise },
            _ => promise,
        }
    }

    /// The answer of a replica to all clients, and of a primary that has lost touch with its replica.
    pub fn turns_away(&self, ask: Ask) -> Option<Answer> {
        if self.node.is_following() && self.flaw != Some(Flaw::ReplicaGrants) {
            return Some(Answer::Unreachable);
        }
        let refuses = self.host.refuses && ask != Ask::Ping;
        refuses.then_some(Answer::Refused(Obstacle::Busy))
    }

    /// Makes the server a primary. `heard`: the time of the last message from the one before.
    pub fn promote(&mut self, heard: u64, now: u64) {
        let time = self.time(now);
        (self.leads, self.stream.has_replica) = (true, true);
        let mut from = time;
        match self.flaw {
            Some(Flaw::PromotedWithoutQuarantine) => self.node.settings.quarantine = Policy::Off,
            Some(Flaw::QuarantineWithoutLag) => from = Time { now: self.time(heard).now, ..time },
            Some(Flaw::QuarantineOfDataSet) if self.knowledge.knows == Knows::Untold => {
                self.node.durable.inherit(Promise::default(), time.now);
            }
            Some(Flaw::UntoldWithoutFence) if self.knowledge.knows == Knows::Untold => {
                let promise = Promise { bound: Millis(UNKNOWN), ..Promise::default() };
                self.node.durable.inherit(promise, time.now);
            }
            Some(Flaw::PromotedWithoutLeases) => self.host.clear(),
            _ => {}
        }
        self.node.promoted(from);
        self.knowledge.takes_over();
        self.promise_now(time);
    }

    /// Makes the server a replica.
    pub fn demote(&mut self, now: u64) {
        (self.leads, self.stream.has_replica) = (false, false);
        self.carry_on();
        self.stream.sent.clear();
        self.host.disk_is_full = false;
        let now = self.time(now).now;
        if !self.is_up {
            return;
        }
        self.knowledge.knows = Knows::Untold;
        if self.flaw == Some(Flaw::TrustsOwnBound) {
            self.node.follow(&mut self.host, now);
        } else {
            self.node.demoted(&mut self.host, now);
        }
    }

    /// The end of a lease, in true time.
    pub fn true_end(&self, end: dlock_core::Deadline) -> u64 {
        self.clock.when(Instant(end.0.saturating_mul(1000)))
    }

    /// The end of a lease, by this server's clock, as far as a client can rely on it: clocks differ.
    pub fn end_at(&self, end: u64, now: u64) -> dlock_core::Deadline {
        let left = end.saturating_sub(now);
        let trusted = now + left.saturating_sub(left / 90 + 3_000);
        dlock_core::Deadline(self.time(trusted).now.0 / 1000)
    }
}
