//! What time does: leases and waits that are over, and work that had to be put off.

use alloc::boxed::Box;

use super::acquire::change;
use super::put_off::Undo;
use super::{Node, Place};
use crate::fence::Slot;
use crate::host::{Effect, Ending, Host, Serves, WaitOutcome};
use crate::lock::{Asker, Found, Grant, Holders, Renewal};
use crate::words::{ClientId, Key, Lease, Millis, Mode, Time};

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
        let hears = may_write && !self.following && !self.refuses_all();
        self.places.pace.turn(time.now, hears);
        let unused = self.end_waits(host, time, waits);
        let unused = self.end_places(unused, time.now);
        if !may_write || self.following {
            return unused == 0;
        }
        let unread = self.places.wait_for_turn(time.now);
        let mut left = budget - waits + unused;
        self.look_at_foreign(time);
        // In turns, so that neither keeps the other from being done.
        while left > 0 {
            let caught_up = self.catch_up(host, time);
            let ended = self.end_due(host, time, left.min(A_FEW));
            if caught_up + ended == 0 {
                return unused == 0 || unread;
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
            if self.depart(id, time.now) {
                host.answer(id, WaitOutcome::Denied);
            }
        }
        left
    }

    fn look_at_foreign(&mut self, time: Time) {
        while let Some(key) = self.watched.pop_over(time.now) {
            self.put_off.serve(key);
        }
    }

    /// Does a piece or two of what had to be put off: of grants that end, and of keys to be served.
    /// How many that were.
    fn catch_up<H: Host>(&mut self, host: &mut H, time: Time) -> usize {
        let undo = self.put_off.next_undo();
        let to_serve = self.put_off.next_to_serve();
        let pieces = usize::from(undo.is_some()) + usize::from(to_serve.is_some());
        if let Some((place, undo)) = undo {
            self.look_after(host, place.key.as_key(), Some((&place, undo)), time);
        }
        if let Some(key) = to_serve {
            self.look_after(host, key.as_key(), None, time);
        }
        pieces
    }

    /// Undoes a grant, ends what is over at the key, and serves the next waiters.
    fn look_after<H: Host>(
        &mut self,
        host: &mut H,
        key: Key<'_>,
        undo: Option<(&Place, Undo)>,
        time: Time,
    ) {
        let serves = self.may_hand_over(host, key);
        if let Some((place, undo)) = undo {
            self.undo(host, place, undo, time);
        }
        self.end_over(host, key, time, AT_ONCE);
        self.hand_over(host, key, time, serves);
    }

    /// Ends or cuts the grant of a connection that is gone, if the grant is still that connection's.
    fn undo<H: Host>(&mut self, host: &mut H, place: &Place, undo: Undo, time: Time) {
        let key = place.key.as_key();
        let found = host.find(key);
        let Some((mode, grant)) = found.mode().zip(found.grant(&place.token)) else { return };
        if grant.client != place.client {
            return;
        }
        match undo {
            Undo::End(Ending::Disconnected) if !grant.ephemeral => {}
            Undo::End(why) => {
                self.end(host, key, &place.token, why, time);
            }
            Undo::Cut(keep) => self.cut(host, key, mode, &place.token, keep, time),
        }
    }

    /// Nobody has heard of the grant: it becomes as short as its place. A grant of which its holder may
    /// have heard is never cut: the holder counts on it.
    fn cut<H: Host>(
        &mut self,
        host: &mut H,
        key: Key<'_>,
        mode: Mode,
        token: &[u8],
        keep: Millis,
        time: Time,
    ) {
        self.forget_ephemeral(host, key, token);
        let found = host.find(key);
        let Some(Grant { fence, lease: granted, client, meta, .. }) = found.grant(token) else {
            return;
        };
        self.back((client == ClientId::AWAY).then_some(granted.end));
        let meta: Box<[u8]> = meta.into();
        let kept = Lease::begin(time.now, keep);
        let lease = if kept.end < granted.end { kept } else { granted };
        let asker = Asker { client: ClientId::AWAY, ephemeral: false, meta: &meta };
        change(host, key, mode, token, Renewal { lease, fence, asker: Some(asker) });
        self.places.lease_began(lease.end);
        let Asker { client, ephemeral, meta } = asker;
        let grant = Grant { token, fence, lease, client, ephemeral, meta };
        host.tell(key, Effect::Renewed { mode, grant });
    }

    /// Whether this node may grant the lock to somebody who waits for it: its slot may be another
    /// node's by now, or it may be cut off from its replicas. Asked before what is over ends, for
    /// a slot that is moving is served here as long as the key is.
    fn may_hand_over<H: Host>(&self, host: &mut H, key: Key<'_>) -> Serves {
        if self.queue(key).is_none() { Serves::Yes } else { host.serves(key) }
    }

    /// Serves the next waiters, if this server still serves the key. If not, they have to ask again.
    fn hand_over<H: Host>(&mut self, host: &mut H, key: Key<'_>, time: Time, serves: Serves) {
        match serves {
            Serves::Yes => self.serve(host, key, time),
            Serves::Later => self.watch(key, Millis(100), time),
            Serves::Moved => self.dismiss(host, key, WaitOutcome::Removed),
        }
    }

    /// What every command begins with: ends what is over at the key.
    ///
    /// Of a large crowd that is over in one moment it ends a part, and leaves the rest to the next
    /// turns: no command takes long. But the token that the command speaks of is up to date.
    pub(super) fn expire_due<H: Host>(
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
        let Found::Held(Holders::Many(crowd)) = host.find(key) else { return false };
        let over = crowd.last_end().is_some_and(|end| end.is_over(time.now));
        // Those who are away may have asked meanwhile.
        if !over || crowd.len() <= AT_ONCE || !self.places.have_no_lease() {
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
