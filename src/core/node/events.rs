//! Events at a node: keys removed by other commands, connections that close, roles that change,
//! effects that arrive from a primary or from a log.

use super::acquire::store;
use super::ephemeral::Ephemeral;
use super::rechecks::Rechecks;
use super::{Node, Role};
use crate::command::apply::{Apply, Granted};
use crate::durability::keys_ahead::KeyAhead;
use crate::lock::done::{Done, Until};
use crate::lock::{Found, Holders};
use crate::node::host::{Answers, Effect, Ending, Host, WaitOutcome};
use crate::reason::Reason;
use crate::servers::slots::slot_of;
use crate::words::{ClientId, Fence, Instant, Key, Lease, Time};

impl Node {
    /// Ends a lock that another command has removed: its leases are over, and its waiters are answered. The
    /// node grants nothing here: the removal may be the first half of a move to another node. The function only
    /// answers, so it can be called during another command.
    ///
    /// `top`: the largest fence of the lock. A RENAME may have brought the lock from another key.
    pub fn removed<A: Answers>(&mut self, host: &mut A, key: Key<'_>, top: Fence, now: Instant) {
        self.pass_on(key, top);
        self.dismiss(host, key, WaitOutcome::Removed, now);
    }

    /// Notes that an EPHEMERAL grant was removed in this way: its connection has nothing left to end.
    pub fn lost(&mut self, key: Key<'_>, token: &[u8], client: ClientId) {
        self.unmark_ephemeral(key, token, client, true);
    }

    /// Ends all locks of a database, or of all databases, likewise. FLUSHALL opens the keys of evicted locks, too.
    pub fn flushed<A: Answers>(&mut self, host: &mut A, db: Option<u32>, now: Instant) {
        self.emptied(host, |key| db.is_none_or(|db| db == key.db), now);
        if db.is_none() {
            self.forget_evicted();
        }
    }

    /// Ends all locks at some keys, likewise.
    pub fn emptied<A: Answers>(
        &mut self,
        host: &mut A,
        goes: impl Fn(Key<'_>) -> bool,
        now: Instant,
    ) {
        for key in self.waiting.keys_of(&goes) {
            self.dismiss(host, key.as_key(), WaitOutcome::Removed, now);
        }
        self.waiting.rechecks.retain(|key| !goes(key.as_key()));
        self.ephemeral.emptied(goes);
    }

    /// Notes that another command may have freed a key: a foreign lock, for example.
    pub fn maybe_free(&mut self, key: Key<'_>) {
        self.waiting.serve_later(key);
    }

    /// Notes that a connection has closed. Its EPHEMERAL grants end as soon as that can be written.
    pub fn closed(&mut self, client: ClientId) {
        self.ephemeral.closed(client);
    }

    /// Makes this node a replica of another primary from now on. It may lack leases of that primary.
    pub fn demoted<A: Answers>(&mut self, host: &mut A, now: Instant) {
        self.durable.untold();
        self.follow(host, now);
    }

    /// Makes this node follow a primary from now on, or the data set that is being loaded.
    pub fn follow<A: Answers>(&mut self, host: &mut A, now: Instant) {
        self.role = Role::Follows;
        for key in self.waiting.keys_of(|_| true) {
            self.dismiss(host, key.as_key(), WaitOutcome::Demoted, now);
        }
        // The server has closed their connections, or is about to.
        self.tell_dismissed(host, usize::MAX);
        self.dismissed.clear();
        self.waiting.rechecks = Rechecks::default();
        // These leases run out at the primary.
        self.ephemeral = Ephemeral::default();
        self.waiting.places.clear();
    }

    /// Makes this node a primary from now on.
    pub(super) fn lead(&mut self, time: Time) {
        self.role = Role::Leads;
        self.durable.lead(time);
    }

    /// True if this node follows a primary, or loads a data set.
    #[must_use]
    pub fn is_following(&self) -> bool {
        self.role != Role::Leads
    }

    /// With `obeys`, another node has decided the next effects, though this node leads. They are for a slot
    /// that is still the other node's, and is about to be this one's.
    pub fn obey(&mut self, obeys: bool) {
        self.role = if obeys { Role::Obeys } else { Role::Leads };
    }

    /// Refuses an effect with a fence that no node with a clock like this one's can have handed out. A node
    /// accepts all effects of its primary and its log.
    ///
    /// # Errors
    /// Fails if a fence is too far ahead.
    pub fn believe(&mut self, apply: &Apply<'_>, time: Time) -> Result<(), Reason> {
        self.durable.counter.look(time);
        match *apply {
            Apply::Grant(Granted { fence, .. })
            | Apply::Done(Done { top: fence, .. }, _)
            | Apply::Floor(fence)
                if self.role == Role::Obeys && self.durable.is_too_far(fence) =>
            {
                let most = self.durable.counter.farthest().0;
                Err(Reason::TooFar { given: fence.0, most })
            }
            _ => Ok(()),
        }
    }

    /// Carries out an effect that was decided elsewhere.
    pub fn apply<H: Host>(&mut self, host: &mut H, key: Key<'_>, apply: &Apply<'_>, time: Time) {
        self.durable.counter.look(time);
        match *apply {
            Apply::End(token) => {
                self.end(host, key, token, Ending::Released, time);
            }
            Apply::Grant(granted) => {
                let mode = granted.mode;
                self.heard_of(key, granted.fence, granted.ttl);
                let grant = granted.grant(Lease::begin(time.now, granted.ttl));
                let in_the_way = match host.find(key) {
                    Found::Free | Found::Over { .. } => false,
                    Found::Held(Holders::Many(crowd)) => !crowd.mode().is_like(mode),
                    _ => true,
                };
                if in_the_way {
                    host.remove(key);
                }
                store(host, key, mode, grant);
                host.tell(key, Effect::Granted { mode, grant, waited: None });
            }
            Apply::Done(done, unix_ms) => {
                self.put_done(host, key, done, Until::at(unix_ms, time.unix), time);
            }
            Apply::Remove => self.apply_removal(host, key),
            Apply::Floor(fence) => self.durable.counter.raise_all(fence),
            Apply::Ahead(hash, slot, fence) => {
                let in_cluster = slot_of(key.name);
                self.durable.counter.learn_ahead(KeyAhead { hash, slot, in_cluster }, fence);
            }
            // The promise is for replicas of the node that made it.
            Apply::Promise(ref promise) => {
                if self.role != Role::Obeys {
                    self.durable.inherit(*promise, time.now);
                }
            }
        }
    }

    fn apply_removal<H: Host>(&mut self, host: &mut H, key: Key<'_>) {
        let found = host.find(key);
        let top = found.top();
        let holders = match found {
            Found::Held(Holders::One(_)) => 1,
            Found::Held(Holders::Many(crowd)) => crowd.len(),
            Found::Foreign { .. } => return host.remove_foreign(key),
            Found::Done { done, .. } => {
                self.pass_on(key, done.top);
                return host.remove_foreign(key);
            }
            Found::Free | Found::Over { .. } => {
                self.pass_on(key, top);
                return host.remove_rest(key);
            }
            Found::WrongType => return host.remove(key),
        };
        self.pass_on(key, top);
        host.remove(key);
        host.tell(key, Effect::AllExpired { holders });
    }
}
