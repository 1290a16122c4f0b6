//! Who waits for a lock, and who is next: strictly in order of arrival.
//!
//! Writers do not starve, because a reader behind a waiting writer waits too.
//!
//! A place can outlive its request: with KEEP the waiter is away then, and still stands where it
//! stood.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;

use crate::limits::MAX_TURNS;
use crate::lock::Found;
use crate::who::Who;
use crate::words::{
    ClientId, Deadline, Fence, Instant, Key, KeyBuf, Millis, Mode, Owner, WaiterId,
};

/// A blocked request, or the place of one that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiter {
    /// Its handle at the host.
    pub id: WaiterId,
    /// The token it will hold the lock with.
    pub token: Arc<[u8]>,
    /// What it asks for.
    pub asks: Asks,
    /// When the token came.
    pub since: Instant,
    /// The user for whom the request counts, and its place.
    pub owner: Owner,
    /// Whether the request still waits.
    pub presence: Presence,
}

/// There may be very many, and with a byte more each would take the allocator's next size, of 160.
const _: () = assert!(size_of::<Waiter>() <= 128);

/// What the newest request with a token asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asks {
    /// How it wants to hold the lock.
    pub mode: Mode,
    /// The lease; it runs from the grant.
    pub ttl: Millis,
    /// Its fence is at least this.
    pub proposal: Option<Fence>,
    /// The connection that waits.
    pub client: ClientId,
    /// Whether the grant will end with that connection.
    pub ephemeral: bool,
    /// Text for an operator.
    pub meta: Box<[u8]>,
    /// For how long its place is kept, if it ends without the lock.
    pub keep: Option<Millis>,
    /// Whether it is told when it would be granted if the present holders left.
    pub wants_turn: bool,
}

/// Whether a request waits, or its place alone is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// A request waits.
    Waiting {
        /// When it gives up; `None`: never.
        until: Option<Deadline>,
    },
    /// The request has ended, and only its place is here.
    Away {
        /// When the place ends, by the clock of places.
        ends: Deadline,
    },
}

impl Waiter {
    /// Whether a request waits here, and not a place alone.
    #[must_use]
    pub fn is_present(&self) -> bool {
        matches!(self.presence, Presence::Waiting { .. })
    }

    /// When it gives up, if it waits.
    #[must_use]
    pub fn gives_up(&self) -> Option<Deadline> {
        match self.presence {
            Presence::Waiting { until } => until,
            Presence::Away { .. } => None,
        }
    }

    /// When its place ends, if it is away.
    #[must_use]
    pub fn place_ends(&self) -> Option<Deadline> {
        match self.presence {
            Presence::Waiting { .. } => None,
            Presence::Away { ends } => Some(ends),
        }
    }
}

/// The waiters of one lock, in order.
#[derive(Clone, Debug, Default)]
pub struct Queue {
    /// Where it is.
    key: Arc<KeyBuf>,
    /// In boxes, for there may be very many keys with one waiter each.
    waiters: BTreeMap<u64, Box<Waiter>>,
    by_token: BTreeMap<Arc<[u8]>, u64>,
    arrivals: u64,
    /// How many are away.
    away: usize,
    /// How many want to be told of their turn.
    turns: usize,
    /// Very many are being let in: the event loop goes on with it, and no command does.
    pub enters: bool,
    /// Until when its waiting has been charged to its key.
    charged: Instant,
    /// Who holds the lock, where slow waits are noted.
    pub holder: Option<Box<Who>>,
}

impl Queue {
    /// Nobody waits there yet.
    #[must_use]
    pub fn at(key: Key<'_>, now: Instant, holder: Option<Box<Who>>) -> Queue {
        Queue { key: Arc::new(key.to_owned()), charged: now, holder, ..Queue::default() }
    }

    /// Where it is.
    #[must_use]
    pub fn key(&self) -> Arc<KeyBuf> {
        self.key.clone()
    }

    /// The rule of who is next: the token that came first, as soon as the lock admits it. Where
    /// nobody waits, the token that asks is the first.
    #[must_use]
    pub fn is_next(queue: Option<&Queue>, token: &[u8], mode: Mode, found: &Found<'_>) -> bool {
        let first = queue.and_then(Queue::first);
        first.is_none_or(|first| *first.token == *token) && found.admits(mode)
    }

    /// How many wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.waiters.len()
    }

    /// Whether nobody does.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiters.is_empty()
    }

    /// The next to be served.
    #[must_use]
    pub fn first(&self) -> Option<&Waiter> {
        self.waiters.values().next().map(|first| &**first)
    }

    /// Whether anybody waits for an answer: not only places are left.
    #[must_use]
    pub fn has_present(&self) -> bool {
        self.away < self.len()
    }

    /// Whether any of them wants to be told of its turn.
    #[must_use]
    pub fn has_turns(&self) -> bool {
        self.turns > 0
    }

    /// A waiter that wants to be told of its turn, if its turn is next: if the present holders left,
    /// it would be granted the lock together with all waiters before it.
    #[must_use]
    pub fn next_turn(&self) -> Option<&Waiter> {
        if self.turns == 0 {
            return None;
        }
        let first = self.first()?;
        let together = self.iter().take(first.asks.mode.room().min(MAX_TURNS));
        let mut together = together.take_while(|waiter| waiter.asks.mode == first.asks.mode);
        together.find(|waiter| waiter.asks.wants_turn)
    }

    /// For how many microseconds all of them together have waited since this was last asked.
    pub fn charge(&mut self, now: Instant) -> u64 {
        let since = core::mem::replace(&mut self.charged, now);
        now.since(since).saturating_mul(self.len() as u64)
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Waiter> {
        self.waiters.values().map(|waiter| &**waiter)
    }

    /// The waiter with this token.
    #[must_use]
    pub fn get(&self, token: &[u8]) -> Option<&Waiter> {
        self.by_token.get(token).and_then(|at| self.waiters.get(at)).map(|waiter| &**waiter)
    }

    /// A newcomer goes to the end. A token that is there already keeps its place; its old request is
    /// returned.
    pub fn join(&mut self, mut waiter: Waiter) -> Option<Waiter> {
        debug_assert!(waiter.is_present(), "only a request brings a waiter");
        self.turns += usize::from(waiter.asks.wants_turn);
        if let Some(at) = self.by_token.get(&waiter.token) {
            let old = self.waiters.get(at);
            waiter.since = old.map_or(waiter.since, |old| old.since);
            let old = self.waiters.insert(*at, Box::new(waiter));
            return self.without(old);
        }
        self.by_token.insert(waiter.token.clone(), self.arrivals);
        self.waiters.insert(self.arrivals, Box::new(waiter));
        self.arrivals += 1;
        None
    }

    /// The request with this token has ended, and its place is kept until then.
    pub fn send_away(&mut self, token: &[u8], end: Deadline) {
        self.forget_turn(token);
        if let Some(waiter) = self.get_mut(token) {
            let away = Presence::Away { ends: end };
            let before = core::mem::replace(&mut waiter.presence, away);
            self.away += usize::from(matches!(before, Presence::Waiting { .. }));
        }
    }

    /// The waiter with this token does not want to be told of its turn any more.
    pub fn forget_turn(&mut self, token: &[u8]) {
        if let Some(waiter) = self.get_mut(token)
            && core::mem::take(&mut waiter.asks.wants_turn)
        {
            self.turns -= 1;
        }
    }

    /// The newest request with this token says whether its place is to be kept.
    pub fn keep(&mut self, token: &[u8], keep: Option<Millis>) {
        if let Some(waiter) = self.get_mut(token) {
            waiter.asks.keep = keep;
        }
    }

    /// The waiter with this token leaves.
    pub fn leave(&mut self, token: &[u8]) -> Option<Waiter> {
        let left = self.by_token.remove(token).and_then(|at| self.waiters.remove(&at));
        self.without(left)
    }

    /// The first waiter leaves, to be served.
    pub fn pop(&mut self) -> Option<Waiter> {
        let (_, waiter) = self.waiters.pop_first()?;
        self.by_token.remove(&waiter.token);
        self.without(Some(waiter))
    }

    fn get_mut(&mut self, token: &[u8]) -> Option<&mut Waiter> {
        let waiter = self.by_token.get(token).and_then(|at| self.waiters.get_mut(at));
        waiter.map(|waiter| &mut **waiter)
    }

    /// Counts a waiter that is not here any more.
    fn without(&mut self, left: Option<Box<Waiter>>) -> Option<Waiter> {
        self.away -= usize::from(left.as_ref().is_some_and(|left| !left.is_present()));
        self.turns -= usize::from(left.as_ref().is_some_and(|left| left.asks.wants_turn));
        left.map(|left| *left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn waiter(id: u64, token: &[u8]) -> Waiter {
        Waiter {
            id: WaiterId(id),
            token: token.into(),
            asks: Asks {
                mode: Mode::Exclusive,
                ttl: Millis(1),
                proposal: None,
                client: ClientId(id),
                ephemeral: false,
                meta: Box::default(),
                keep: None,
                wants_turn: false,
            },
            since: Instant(id),
            owner: Owner(0),
            presence: Presence::Waiting { until: None },
        }
    }

    fn order(queue: &Queue) -> Vec<u64> {
        queue.iter().map(|w| w.id.0).collect()
    }

    #[test]
    fn served_in_order_of_arrival() {
        let mut queue = Queue::default();
        for (id, token) in [(1, b"a"), (2, b"b"), (3, b"c")] {
            assert!(queue.join(waiter(id, token)).is_none());
        }
        assert_eq!(queue.leave(b"b").map(|w| w.id), Some(WaiterId(2)));
        assert_eq!(queue.pop().map(|w| w.id), Some(WaiterId(1)));
        assert_eq!(order(&queue), [3]);
    }

    #[test]
    fn a_token_that_asks_again_keeps_its_place() {
        let mut queue = Queue::default();
        queue.join(waiter(1, b"a"));
        queue.join(waiter(2, b"b"));
        assert_eq!(queue.join(waiter(3, b"a")).map(|w| w.id), Some(WaiterId(1)));
        assert_eq!(order(&queue), [3, 2]);
        let again = queue.get(b"a");
        assert_eq!(again.map(|w| (w.id, w.since)), Some((WaiterId(3), Instant(1))));
    }

    #[test]
    fn one_that_is_away_keeps_its_place_and_waits_for_no_answer() {
        let mut queue = Queue::default();
        queue.join(waiter(1, b"a"));
        queue.join(waiter(2, b"b"));
        queue.send_away(b"a", Deadline(5));
        assert_eq!((order(&queue), queue.has_present()), ([1, 2].into(), true));
        queue.leave(b"b");
        assert!(!queue.has_present());
        queue.join(waiter(3, b"a"));
        assert!(queue.has_present());
        queue.send_away(b"a", Deadline(5));
        queue.pop();
        assert!(queue.is_empty() && !queue.has_present());
    }

    #[test]
    fn next_is_who_came_first_or_who_asks_where_nobody_waits() {
        let mut queue = Queue::default();
        fn next(queue: Option<&Queue>, token: &[u8]) -> bool {
            Queue::is_next(queue, token, Mode::Exclusive, &Found::Free)
        }
        assert!(next(None, b"b") && next(Some(&queue), b"b"));
        queue.join(waiter(1, b"a"));
        queue.send_away(b"a", Deadline(5));
        assert!(next(Some(&queue), b"a") && !next(Some(&queue), b"b"));
        let held = Found::Foreign { left: None };
        assert!(!Queue::is_next(None, b"a", Mode::Exclusive, &held));
    }
}
