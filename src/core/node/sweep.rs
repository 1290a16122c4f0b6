//! The sweep: ends leases and waits that are over, and does deferred work.

use super::Node;
use super::ephemeral::GrantId;
use crate::lock::{Found, Grant, Holders};
use crate::node::host::{Effect, Ending, Host, Serves, WaitOutcome};
use crate::words::{Key, Millis, Time};

impl Node {
    /// Does due work, at most `budget` pieces of it: many endings are spread over several iterations of the
    /// event loop. The end of a lease or a wait is one piece, a grant is four. True if there may be more.
    ///
    /// If `may_write` is false only waits end: they write nothing.
    pub fn sweep<H: Host>(
        &mut self,
        host: &mut H,
        time: Time,
        budget: usize,
        may_write: bool,
    ) -> bool {
        let more = self.work_off(host, time, budget, may_write);
        self.commands = more.then_some(0);
        more
    }

    /// The budget of the next sweep. While there is a backlog, it must not grow: then the budget is at least what commands
    /// have brought in the last iteration of the event loop.
    #[must_use]
    pub fn budget(&self) -> usize {
        BUDGET.max(A_COMMAND.saturating_mul(self.commands.unwrap_or(0)))
    }

    fn work_off<H: Host>(
        &mut self,
        host: &mut H,
        time: Time,
        budget: usize,
        may_write: bool,
    ) -> bool {
        self.durable.counter.look(time);
        self.look_at_quarantine(time.now);
        // Waits may take half of the budget, and dismissed waiters half of that: other work
        // may be due.
        let waits = budget.div_ceil(2);
        let hears = may_write && !self.is_following() && self.durable.in_quarantine().is_none();
        self.waiting.places.clock.iteration(time.now, hears);
        let told = waits.div_ceil(2);
        let unused = waits - told + self.tell_dismissed(host, told);
        let unused = self.end_waits(host, time, unused);
        let unused = self.end_places(unused, time.now);
        let mut is_done = unused > 0 && self.dismissed.is_empty();
        if !may_write || self.is_following() {
            return !is_done;
        }
        is_done &= !self.waiting.places.end_next(time.now);
        let mut left = budget - waits + unused;
        self.waiting.rechecks.come(time.now, left);
        // The two alternate, so that neither delays the other for long.
        while left > 0 {
            let caught_up = self.catch_up(host, time, left);
            let ended = self.end_due(host, time, left);
            if caught_up + ended == 0 {
                return !is_done;
            }
            left = left.saturating_sub(caught_up + ended);
        }
        true
    }

    /// Ends leases that are over at the key that is due first. Returns the pieces of work done.
    fn end_due<H: Host>(&mut self, host: &mut H, time: Time, left: usize) -> usize {
        let Some(key) = host.due(time.now) else { return 0 };
        // If no lease is over at a key that was due, the index lagged, and the look has corrected it.
        self.look_after(host, key.as_key(), None, time, left).max(1)
    }

    fn end_waits<H: Host>(&mut self, host: &mut H, time: Time, budget: usize) -> usize {
        let mut left = budget;
        while left > 0 {
            let Some(&(end, id)) = self.waiting.ends.first() else { break };
            if !end.is_over(time.now) {
                break;
            }
            self.waiting.ends.pop_first();
            left -= 1;
            if self.depart(id, time.now) {
                host.answer(id, WaitOutcome::Denied);
            }
        }
        left
    }

    /// Does a piece or two of deferred work: ends grants, and serves keys.
    /// Returns the pieces of work done.
    fn catch_up<H: Host>(&mut self, host: &mut H, time: Time, left: usize) -> usize {
        let gone = self.ephemeral.next_leaving();
        let to_serve = self.waiting.rechecks.pop_next();
        let mut pieces = 0;
        if let Some(grant) = gone {
            pieces += A_GRANT;
            pieces += self.look_after(host, grant.key.as_key(), Some(&grant), time, left);
        }
        if let Some(key) = to_serve {
            pieces += A_GRANT + self.look_after(host, key.as_key(), None, time, left);
        }
        pieces
    }

    /// Ends the grant of a connection that is gone, ends leases that are over at the key, and serves the next
    /// waiters. Returns the pieces of work done.
    fn look_after<H: Host>(
        &mut self,
        host: &mut H,
        key: Key<'_>,
        gone: Option<&GrantId>,
        time: Time,
        left: usize,
    ) -> usize {
        let serves = self.may_hand_over(host, key);
        if let Some(grant) = gone {
            self.end_gone(host, grant, time);
        }
        let ended = self.end_over(host, key, time, left.min(A_FEW));
        ended + self.hand_over(host, key, time, serves)
    }

    /// Ends the EPHEMERAL grant of a connection that is gone, if the grant is still that connection's.
    fn end_gone<H: Host>(&mut self, host: &mut H, id: &GrantId, time: Time) {
        let key = id.key.as_key();
        let is_its = |grant: Grant<'_>| grant.ephemeral && grant.client == id.client;
        if host.find(key).grant(&id.token).is_some_and(is_its) {
            self.end(host, key, &id.token, Ending::Disconnected, time);
        }
    }

    /// Tells if this node may grant the lock to a waiter: its slot may be another node's by now, or the node
    /// may be cut off from its replicas. It is asked before leases end, because a slot that is moving is served
    /// here as long as the key is here.
    fn may_hand_over<H: Host>(&self, host: &mut H, key: Key<'_>) -> Serves {
        if self.waiting.queue(key).is_none() { Serves::Yes } else { host.serves(key) }
    }

    /// Serves a few of the next waiters, if this server still serves the key. If not, they have to ask again.
    /// Returns the pieces of work done.
    fn hand_over<H: Host>(
        &mut self,
        host: &mut H,
        key: Key<'_>,
        time: Time,
        serves: Serves,
    ) -> usize {
        self.waiting.change_queue(key, |queue| queue.enters = false);
        match serves {
            Serves::Yes => return A_GRANT * self.serve_some(host, key, time, A_FEW),
            Serves::Later => self.waiting.watch(key, Millis(100), time),
            Serves::Moved => self.dismiss(host, key, WaitOutcome::Removed, time.now),
        }
        0
    }

    /// Ends the leases that are over at the key; every command begins with this.
    ///
    /// If a large crowd ends in one moment, it ends a part, and leaves the rest to the next iterations, so that
    /// no command takes long. But the token of the command is up to date.
    pub(super) fn expire_due<H: Host>(
        &mut self,
        host: &mut H,
        key: Key<'_>,
        token: &[u8],
        time: Time,
    ) {
        self.commands = self.commands.map(|commands| commands + 1);
        let is_due = host.first_end(key).is_some_and(|end| end.is_over(time.now));
        if !is_due || self.is_following() || self.end_all(host, key, time) {
            return;
        }
        if self.end_over(host, key, time, AT_ONCE) == AT_ONCE {
            let over = |grant: Grant<'_>| grant.lease.end.is_over(time.now);
            if host.find(key).grant(token).is_some_and(over) {
                self.end(host, key, token, Ending::Expired, time);
            }
        }
    }

    /// Ends a large crowd in one piece, once its last lease is over.
    fn end_all<H: Host>(&mut self, host: &mut H, key: Key<'_>, time: Time) -> bool {
        let Found::Held(Holders::Many(crowd)) = host.find(key) else { return false };
        let over = crowd.last_end().is_some_and(|end| end.is_over(time.now));
        if !over || crowd.len() <= AT_ONCE {
            return false;
        }
        let holders = crowd.len();
        for grant in crowd.grants().filter(|grant| grant.ephemeral) {
            self.unmark_ephemeral(key, grant.token, grant.client, true);
        }
        self.durable.counter.learn(key.name, crowd.top(), false);
        host.remove(key);
        host.tell(key, Effect::AllExpired { holders });
        true
    }
}

/// The least budget. Many endings take several iterations, so that other clients are served in between.
const BUDGET: usize = 300;
/// Twice what one command can bring: the end of a lease and a grant. Waits take the other half of the budget.
const A_COMMAND: usize = 2 * (1 + A_GRANT);
/// The largest number of leases that one command ends.
const AT_ONCE: usize = 256;
/// The number of leases at one key that end, or are granted, before other work has its turn.
const A_FEW: usize = 16;
/// A grant takes as long as this many leases that end.
const A_GRANT: usize = 4;
