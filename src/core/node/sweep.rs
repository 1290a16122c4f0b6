//! What time does: leases and waits that are over, and work that had to be put off.

use super::Node;
use crate::host::{Answer, Ending, Host};
use crate::lock::Grant;
use crate::words::{Key, Time};

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
        let mut left = self.end_waits(host, time, budget);
        if !may_write || self.following {
            return left == 0;
        }
        self.look_at_foreign(time);
        while left > 0 && self.catch_up(host, time) {
            left -= 1;
        }
        while left > 0 {
            let Some(key) = host.due(time.now) else { return false };
            let key = key.as_key();
            let ours = self.may_hand_over(host, key);
            // Nothing over at a key that was due: the index lags, and looking has mended it.
            left -= self.end_over(host, key, time, left).max(1);
            self.hand_over(host, key, time, ours);
        }
        true
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
        while let Some(key) = self.foreign.pop_over(time.now) {
            self.to_serve.push_back(key);
        }
    }

    /// Does one piece of what had to be put off. False: there is none.
    fn catch_up<H: Host>(&mut self, host: &mut H, time: Time) -> bool {
        let (key, ending) = match self.to_end.pop_first() {
            Some((place, why)) => (place.key.clone(), Some((place, why))),
            None => match self.to_serve.pop_front() {
                Some(key) => (key, None),
                None => return false,
            },
        };
        let key = key.as_key();
        let ours = self.may_hand_over(host, key);
        if let Some((place, why)) = ending {
            let speaks = |grant: Grant<'_>| {
                grant.client == place.client && (grant.ephemeral || why != Ending::Disconnected)
            };
            if host.find(key).grant(&place.token).is_some_and(speaks) {
                self.end(host, key, &place.token, why, time);
            }
        }
        self.end_over(host, key, time, AT_ONCE);
        self.hand_over(host, key, time, ours);
        true
    }

    /// Whether this node may grant the lock to somebody who waits for it: in a cluster its slot
    /// may be another node's by now, or nobody's. Asked before what is over ends, for a slot that
    /// is moving is served here as long as the key is.
    fn may_hand_over<H: Host>(&self, host: &mut H, key: Key<'_>) -> bool {
        self.queue(key).is_none() || host.serves(key)
    }

    /// Leases end wherever the lock is. Who waits for it where it is not served has to ask again.
    fn hand_over<H: Host>(&mut self, host: &mut H, key: Key<'_>, time: Time, ours: bool) {
        if ours {
            self.serve(host, key, time);
        } else {
            self.dismiss(host, key, Answer::Removed);
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
        if self.end_over(host, key, time, AT_ONCE) == AT_ONCE {
            let over = |grant: Grant<'_>| grant.lease.end.is_over(time.now);
            if host.find(key).grant(token).is_some_and(over) {
                self.end(host, key, token, Ending::Expired, time);
            }
        }
    }
}

/// How many leases one command, or one piece of work that was put off, ends at most.
const AT_ONCE: usize = 256;
