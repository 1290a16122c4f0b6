//! What happens to a node: keys removed under it, connections that close, roles that change,
//! effects that arrive from a primary or from a log.

use alloc::vec::Vec;

use super::acquire::store;
use super::{Inherited, Node};
use crate::command::Refusal;
use crate::command::apply::{Apply, Granted};
use crate::host::{Answers, Effect, Ending, Host, WaitOutcome};
use crate::lock::{Found, Holders};
use crate::words::{ClientId, Fence, Key, KeyBuf, Lease, Time};

impl Node {
    /// Somebody removed the lock with a command that is not ours: its leases are over, and who
    /// waited is told. Nothing is granted from here: the same removal may be the first half of
    /// a move to another node. Only answers, so it can be called in the middle of somebody else's
    /// command.
    ///
    /// `top` is its largest fence: it may have been another key's, by whose name it was renamed.
    pub fn removed<A: Answers>(&mut self, host: &mut A, key: Key<'_>, top: Fence) {
        self.pass_on(key, top);
        self.dismiss(host, key, WaitOutcome::Removed);
    }

    /// A grant that was removed so: its connection has nothing to end any more.
    pub fn lost(&mut self, key: Key<'_>, token: &[u8], client: ClientId) {
        self.unmark_ephemeral(key, token, client, true);
    }

    /// The same for all locks of a database, or of all databases.
    pub fn flushed<A: Answers>(&mut self, host: &mut A, db: Option<u32>) {
        let flushed = |key: &KeyBuf| db.is_none_or(|db| db == key.db);
        let keys: Vec<KeyBuf> = self
            .queues
            .iter()
            .flat_map(|(db, names)| names.keys().map(|name| Key { db: *db, name }.to_owned()))
            .filter(flushed)
            .collect();
        for key in keys {
            self.dismiss(host, key.as_key(), WaitOutcome::Removed);
        }
        self.watched.retain(|key| !flushed(key));
        self.ephemeral.retain(|_, places| {
            places.retain(|place| !flushed(&place.key));
            !places.is_empty()
        });
    }

    /// A key may have become free by a command that is not ours: a foreign lock, for example.
    pub fn maybe_free(&mut self, key: Key<'_>) {
        if self.queue(key).is_some() {
            self.put_off.serve(key.to_owned());
        }
    }

    /// A connection has closed: what it held until then ends, as soon as that can be written.
    pub fn closed(&mut self, client: ClientId) {
        if let Some(places) = self.ephemeral.remove(&client) {
            self.put_off.end_all(places);
        }
    }

    /// Somebody else decides from now on: a primary, or the data that is being loaded.
    pub fn follow<A: Answers>(&mut self, host: &mut A) {
        self.following = true;
        let keys: Vec<KeyBuf> = self.waiting.values().map(|seat| seat.key().to_owned()).collect();
        for key in keys {
            self.dismiss(host, key.as_key(), WaitOutcome::Demoted);
        }
        self.put_off.clear();
        self.unvouched.clear();
        self.watched = super::watched::Watched::default();
        // Their leases run out where they are led from now on.
        self.ephemeral.clear();
        self.places.clear();
    }

    /// This node decides from now on.
    pub(super) fn lead(&mut self, time: Time) {
        self.following = false;
        self.clock.at_least(time.now, self.inherited_unix);
        self.counter.raise_all(self.inherited);
        self.counter.begin(time.unix);
        self.inherited_bounds = Inherited::Nothing;
    }

    /// Whether somebody else decides.
    #[must_use]
    pub fn is_following(&self) -> bool {
        self.following
    }

    /// With `obeys`, what is carried out next was decided elsewhere, though this node leads: it is for
    /// a slot that is another node's, and about to be this one's.
    pub fn obey(&mut self, obeys: bool) {
        (self.obeys, self.following) = (obeys, obeys);
    }

    /// Refuses what no node with a clock like this one's can have decided. Of its primary and its log a
    /// node believes all.
    ///
    /// # Errors
    /// When a fence is too far ahead.
    pub fn believe<'a>(&self, apply: &Apply<'_>, time: Time) -> Result<(), Refusal<'a>> {
        match *apply {
            Apply::Grant(Granted { fence, .. }) | Apply::Floor(fence)
                if self.obeys && self.is_too_far(fence, time.unix) =>
            {
                let most = self.counter.farthest(time.unix).0;
                Err(Refusal::TooFar { given: fence.0, most })
            }
            _ => Ok(()),
        }
    }

    /// Carries out what was decided elsewhere.
    pub fn apply<H: Host>(&mut self, host: &mut H, key: Key<'_>, apply: &Apply<'_>, time: Time) {
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
                    Found::Held(Holders::Many(crowd)) => crowd.mode() != mode,
                    _ => true,
                };
                if in_the_way {
                    host.remove(key);
                }
                store(host, key, mode, grant);
                host.tell(key, Effect::Granted { mode, grant, waited: None });
            }
            Apply::Remove => self.apply_removal(host, key),
            Apply::Floor(fence) => self.counter.raise_all(fence),
            // It is for replicas of the node that has promised it.
            Apply::Promise(ref promise) => {
                if !self.obeys {
                    self.inherit(promise.clone());
                }
            }
            Apply::Expire(unix_ms) => {
                if matches!(host.find(key), Found::Foreign { .. }) {
                    host.expire_foreign_at(key, unix_ms);
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
