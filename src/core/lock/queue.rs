//! The waiters of a lock, served strictly in order of arrival.
//!
//! Writers do not starve, because a reader behind a waiting writer waits too.
//!
//! With KEEP a place can outlast its request: the waiter is then away, and keeps its position.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;

use crate::limits::MAX_TURNS;
use crate::lock::Found;
use crate::words::{
    ClientId, Deadline, Fence, Instant, Key, KeyBuf, Millis, Mode, Owner, WaiterId,
};

/// A blocked request, or the place of one that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiter {
    /// The host's handle of the request.
    pub id: WaiterId,
    /// The token that will hold the lock.
    pub token: Arc<[u8]>,
    /// The newest request's terms.
    pub asks: Asks,
    /// Time of joining the queue.
    pub since: Instant,
    /// The user that the request and its place count for.
    pub owner: Owner,
    /// A waiting request, or a place alone.
    pub presence: Presence,
}

/// A server may have very many waiters; with one more byte the allocator takes 160 bytes for each.
const _: () = assert!(size_of::<Waiter>() <= 128);

/// The terms of a token's newest request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asks {
    /// The mode asked for.
    pub mode: Mode,
    /// The lease; it runs from the grant.
    pub ttl: Millis,
    /// The least fence of the grant.
    pub proposal: Option<Fence>,
    /// The connection that waits.
    pub client: ClientId,
    /// True if the grant ends with that connection.
    pub ephemeral: bool,
    /// Text for an operator.
    pub meta: Box<[u8]>,
    /// Time for which the place is kept after a request that ended without the lock.
    pub keep: Option<Millis>,
    /// True if the request is answered once only the present holders stand before it.
    pub wants_turn: bool,
}

/// The state of a waiter: a waiting request, or a place alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// A request waits.
    Waiting {
        /// The end of the wait; `None`: never.
        until: Option<Deadline>,
    },
    /// The request has ended, and only its place is left.
    Away {
        /// The end of the place, by the clock of places.
        ends: Deadline,
    },
}

impl Waiter {
    /// True if a request waits, false if only a place is left.
    #[must_use]
    pub fn is_present(&self) -> bool {
        matches!(self.presence, Presence::Waiting { .. })
    }

    /// The end of the wait, if a request waits.
    #[must_use]
    pub fn gives_up(&self) -> Option<Deadline> {
        match self.presence {
            Presence::Waiting { until } => until,
            Presence::Away { .. } => None,
        }
    }

    /// The end of the place, if the waiter is away.
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
    /// The key of the lock.
    key: Arc<KeyBuf>,
    /// The waiters, in boxes, because there may be very many keys with one waiter each.
    waiters: BTreeMap<u64, Box<Waiter>>,
    by_token: BTreeMap<Arc<[u8]>, u64>,
    arrivals: u64,
    /// The number of waiters that are away.
    away: usize,
    /// The number of waiters with TURN.
    turns: usize,
    /// True while very many waiters get the lock: then the event loop continues to serve them, and no command
    /// does.
    pub enters: bool,
    /// End of the time charged to the key for its waiters.
    charged: Instant,
}

impl Queue {
    /// A queue without waiters.
    #[must_use]
    pub fn at(key: Key<'_>, now: Instant) -> Queue {
        Queue { key: Arc::new(key.to_owned()), charged: now, ..Queue::default() }
    }

    /// The key of the lock.
    #[must_use]
    pub fn key(&self) -> Arc<KeyBuf> {
        self.key.clone()
    }

    /// True if the token is next: it came first, and the lock admits it. Without a queue, the
    /// token that asks is the first.
    #[must_use]
    pub fn is_next(queue: Option<&Queue>, token: &[u8], mode: Mode, found: &Found<'_>) -> bool {
        let first = queue.and_then(Queue::first);
        first.is_none_or(|first| *first.token == *token) && found.admits(mode)
    }

    /// The number of waiters.
    #[must_use]
    pub fn len(&self) -> usize {
        self.waiters.len()
    }

    /// True if there are no waiters.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiters.is_empty()
    }

    /// The waiter that is served next.
    #[must_use]
    pub fn first(&self) -> Option<&Waiter> {
        self.waiters.values().next().map(|first| &**first)
    }

    /// True if any request waits, and not only places are left.
    #[must_use]
    pub fn has_present(&self) -> bool {
        self.away < self.len()
    }

    /// True if any waiter has TURN.
    #[must_use]
    pub fn has_turns(&self) -> bool {
        self.turns > 0
    }

    /// The waiter with TURN and the next turn: if the present holders left, it would get the lock together with
    /// all waiters before it.
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

    /// The microseconds that all waiters together have waited since the last call.
    pub fn charge(&mut self, now: Instant) -> u64 {
        let since = core::mem::replace(&mut self.charged, now);
        now.since(since).saturating_mul(self.len() as u64)
    }

    /// All waiters, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Waiter> {
        self.waiters.values().map(|waiter| &**waiter)
    }

    /// The waiter with this token.
    #[must_use]
    pub fn get(&self, token: &[u8]) -> Option<&Waiter> {
        self.by_token.get(token).and_then(|at| self.waiters.get(at)).map(|waiter| &**waiter)
    }

    /// Adds a waiter at the end. A token that is there already keeps its place; its old request is returned.
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

    /// Notes that the request with this token has ended; its place is kept until `end`.
    pub fn send_away(&mut self, token: &[u8], end: Deadline) {
        self.forget_turn(token);
        if let Some(waiter) = self.get_mut(token) {
            let away = Presence::Away { ends: end };
            let before = core::mem::replace(&mut waiter.presence, away);
            self.away += usize::from(matches!(before, Presence::Waiting { .. }));
        }
    }

    /// Drops TURN from the waiter with this token.
    pub fn forget_turn(&mut self, token: &[u8]) {
        if let Some(waiter) = self.get_mut(token)
            && core::mem::take(&mut waiter.asks.wants_turn)
        {
            self.turns -= 1;
        }
    }

    /// Removes the waiter with this token.
    pub fn leave(&mut self, token: &[u8]) -> Option<Waiter> {
        let left = self.by_token.remove(token).and_then(|at| self.waiters.remove(&at));
        self.without(left)
    }

    /// Removes the first waiter, to serve it.
    pub fn pop(&mut self) -> Option<Waiter> {
        let (_, waiter) = self.waiters.pop_first()?;
        self.by_token.remove(&waiter.token);
        self.without(Some(waiter))
    }

    fn get_mut(&mut self, token: &[u8]) -> Option<&mut Waiter> {
        let waiter = self.by_token.get(token).and_then(|at| self.waiters.get_mut(at));
        waiter.map(|waiter| &mut **waiter)
    }

    /// Corrects the counts for a waiter that has left.
    fn without(&mut self, left: Option<Box<Waiter>>) -> Option<Waiter> {
        self.away -= usize::from(left.as_ref().is_some_and(|left| !left.is_present()));
        self.turns -= usize::from(left.as_ref().is_some_and(|left| left.asks.wants_turn));
        left.map(|left| *left)
    }
}
