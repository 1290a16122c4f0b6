//! What time does: leases and waits that are over, and work that had to be put off.

use super::{Node, Place};
use crate::fence::Slot;
use crate::host::{Answer, Effect, Ending, Host, Serves};
use crate::lock::{Found, Grant, Held};
use crate::words::{Key, Millis, Time};

impl Node {
    /// Does what is due, at most `budget` pieces of it, so that a burst of endings is spread
    /// over several turns of the server. Whether there may be more.
    ///
    /// With `may_write` false only waits end: they write nothing.
    pub fn sweep<H: Host>(
        &mut self,
        host: &mut H,
        time: Time,
        budget: usize,
        may_write: bool,
    ) -> bool {
        self.look_at_quarantine(time.now);
        // Waits may take half of it: there may be something due for others.
        let waits = budget.div_ceil(2);
        let unused = self.end_waits(host, time, waits);
        if !may_write || self.following {
            return unused == 0;
        }
        let mut left = budget - waits + unused;
        self.look_at_foreign(time);
        // In turns, so that neither keeps the other from being done.
        while left > 0 {
            let caught_up = self.catch_up(host, time);
            let ended = self.end_due(host, time, left.min(A_FEW));
            if caught_up + ended == 0 {
                return unused == 0;
            }
            left = left.saturating_sub(caught_up + ended);
        }
        true
    }

    /// Ends leases that are over at the key that is due first. How many pieces of work that was.
    fn end_due<H: Host>(&mut self, host: &mut H, time: Time, most: usize) -> usize {
        let Some(key) = host.due(time.now) else { return 0 };
        let key = key.as_key();
        let serves = self.may_hand_over(host, key);
        // Nothing over at a key that was due: the index lags, and looking has mended it.
        let ended = self.end_over(host, key, time, most).max(1);
        self.hand_over(host, key, time, serves);
        ended
    }

    fn end_waits<H: Host>(&mut self, host: &mut H, time: Time, budget: usize) -> usize {
        let mut left = budget;
        while left > 0 {
            let Some(&(end, id)) = self.waits.first() else { break };
            if !end.is_over(time.now) {
                break;
            }
            self.waits.pop_first();
            left -= 1;
            let Some(place) = self.waiting.get(&id).cloned() else { continue };
            if let Some(waiter) = self.leave_later(&place) {
                host.answer(waiter.id, Answer::Denied);
            }
        }
        left
    }

    fn look_at_foreign(&mut self, time: Time) {
        while let Some(key) = self.watched.pop_over(time.now) {
            self.serve_later(key);
        }
    }

    /// Does a piece or two of what had to be put off: of grants that end, and of keys to be served.
    /// How many that were.
    fn catch_up<H: Host>(&mut self, host: &mut H, time: Time) -> usize {
        let ending = self.pop_ending();
        let to_serve = self.pop_to_serve();
        let pieces = usize::from(ending.is_some()) + usize::from(to_serve.is_some());
        if let Some((place, why)) = ending {
            self.look_after(host, place.key.as_key(), Some((&place, why)), time);
        }
        if let Some(key) = to_serve {
            self.look_after(host, key.as_key(), None, time);
        }
        pieces
    }

    /// A grant that is to end, and why.
    fn pop_ending(&mut self) -> Option<(Place, Ending)> {
        if let Some(place) = self.to_end.pop_first() {
            return Some((place, Ending::Undelivered));
        }
        while let Some(places) = self.leaving.front_mut() {
            if let Some(place) = places.pop_first() {
                return Some((place, Ending::Disconnected));
            }
            self.leaving.pop_front();
        }
        None
    }

    /// Ends what is over at the key, and a grant if its connection still speaks for it.
    fn look_after<H: Host>(
        &mut self,
        host: &mut H,
        key: Key<'_>,
        ending: Option<(&Place, Ending)>,
        time: Time,
    ) {
        let serves = self.may_hand_over(host, key);
        if let Some((place, why)) = ending {
            let speaks = |grant: Grant<'_>| {
                grant.client == place.client && (grant.ephemeral || why != Ending::Disconnected)
            };
            if host.find(key).grant(&place.token).is_some_and(speaks) {
                self.end(host, key, &place.token, why, time);
            }
        }
        self.end_over(host, key, time, AT_ONCE);
        self.hand_over(host, key, time, serves);
    }

    /// Whether this node may grant the lock to somebody who waits for it: its slot may be another
    /// node's by now, or it may be cut off from its replicas. Asked before what is over ends, for
    /// a slot that is moving is served here as long as the key is.
    fn may_hand_over<H: Host>(&self, host: &mut H, key: Key<'_>) -> Serves {
        if self.queue(key).is_none() { Serves::Yes } else { host.serves(key) }
    }

    /// Leases end wherever the lock is. Who waits for it where it is not served has to ask again.
    fn hand_over<H: Host>(&mut self, host: &mut H, key: Key<'_>, time: Time, serves: Serves) {
        match serves {
            Serves::Yes => self.serve(host, key, time),
            Serves::Later => self.watch(key, Millis(100), time),
            Serves::Moved => self.dismiss(host, key, Answer::Removed),
        }
    }

    /// What every command begins with: ends what is over at the key.
    ///
    /// Of a large crowd that is over in one moment it ends a part, and leaves the rest to the next
    /// turns: no command takes long. But the token that the command speaks of is up to date.
    pub(super) fn freshen<H: Host>(
        &mut self,
        host: &mut H,
        key: Key<'_>,
        token: &[u8],
        time: Time,
    ) {
        if self.end_all(host, key, time) {
            return;
        }
        if self.end_over(host, key, time, AT_ONCE) == AT_ONCE {
            let over = |grant: Grant<'_>| grant.lease.end.is_over(time.now);
            if host.find(key).grant(token).is_some_and(over) {
                self.end(host, key, token, Ending::Expired, time);
            }
        }
    }

    /// A large crowd whose last lease is over ends in one piece.
    fn end_all<H: Host>(&mut self, host: &mut H, key: Key<'_>, time: Time) -> bool {
        if self.following || !host.first_end(key).is_some_and(|end| end.is_over(time.now)) {
            return false;
        }
        let Found::Held(Held::Many(crowd)) = host.find(key) else { return false };
        let over = crowd.last_end().is_some_and(|end| end.is_over(time.now));
        if !over || crowd.len() <= AT_ONCE {
            return false;
        }
        let holders = crowd.len();
        for grant in crowd.grants().filter(|grant| grant.ephemeral) {
            self.unmark_ephemeral(key, grant.token, grant.client, true);
        }
        self.counter.raise(Slot::of(key.name), crowd.top());
        host.remove(key);
        host.tell(key, Effect::AllExpired { holders });
        true
    }
}

/// How many leases one command, or one piece of work that was put off, ends or grants at most.
pub(super) const AT_ONCE: usize = 256;
/// How many leases at one key are ended before something else has its turn.
const A_FEW: usize = 16;
