//! One lock: its holders, and the requests that it admits beside them.
//!
//! A lock has one mode while it is held. An exclusive lock has one holder and is by far the most common, so it
//! is kept small: a [`Grant`] that borrows from the host's storage. Shared locks and semaphores have many
//! holders, with an index by token and one by deadline: a [`Crowd`].
//!
//! - [`queue`]: the waiters of a lock, in order of arrival.
//! - [`done`]: the completion record of a lock.

pub mod done;
pub mod queue;

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;

use crate::lock::done::Done;
use crate::words::{ClientId, Deadline, Fence, Instant, Lease, Millis, Mode};

/// The content of a key.
#[derive(Debug)]
pub enum Found<'a> {
    /// Nothing: the lock is free.
    Free,
    /// A lock that ended when another command moved the key here. The key is free, but the next fence must be
    /// larger.
    Over {
        /// Its largest fence.
        top: Fence,
    },
    /// A lock that dlock granted.
    Held(Holders<'a>),
    /// The completion record of a lock.
    Done {
        /// The record.
        done: Done<'a>,
        /// Time left until the lock is free again; `None`: the expiry was removed.
        left: Option<Millis>,
    },
    /// A plain string: a lock taken with SET NX. Its value is the token.
    Foreign {
        /// Time left until it expires, if it has an expiry.
        left: Option<Millis>,
    },
    /// Data of another type.
    WrongType,
}

/// A held lock.
#[derive(Debug)]
pub enum Holders<'a> {
    /// Exclusive: the one holder.
    One(Grant<'a>),
    /// Shared or a semaphore.
    Many(&'a mut Crowd),
}

/// The grant of one acquisition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant<'a> {
    /// The client's name for the grant, compared byte by byte.
    pub token: &'a [u8],
    /// The number that the guarded resource checks.
    pub fence: Fence,
    /// Its length, beginning and end.
    pub lease: Lease,
    /// The connection that asked; [`ClientId::UNKNOWN`] if there is none to name.
    pub client: ClientId,
    /// True if the grant ends with that connection.
    pub ephemeral: bool,
    /// Text for an operator.
    pub meta: &'a [u8],
}

impl Found<'_> {
    /// True if one more holder in `mode` is compatible with the present ones. The queue decides separately:
    /// see [`Queue::is_next`](crate::lock::queue::Queue::is_next).
    #[must_use]
    pub fn admits(&self, mode: Mode) -> bool {
        match self {
            Found::Free | Found::Over { .. } => true,
            Found::Held(Holders::Many(crowd)) => crowd.admits(mode),
            Found::Held(Holders::One(_))
            | Found::Done { .. }
            | Found::Foreign { .. }
            | Found::WrongType => false,
        }
    }

    /// True if the one holder was granted the lock while it was away, and has not asked since.
    #[must_use]
    pub fn is_held_by_absent(&self) -> bool {
        matches!(self, Found::Held(Holders::One(grant)) if grant.client == ClientId::AWAY)
    }

    /// The largest fence of all holders, past ones included; zero if there are and were none.
    #[must_use]
    pub fn top(&self) -> Fence {
        match self {
            Found::Held(Holders::One(grant)) => grant.fence,
            Found::Held(Holders::Many(crowd)) => crowd.top(),
            Found::Over { top } => *top,
            Found::Done { done, .. } => done.top,
            _ => Fence(0),
        }
    }

    /// The mode of the lock, if dlock granted it.
    #[must_use]
    pub fn mode(&self) -> Option<Mode> {
        match self {
            Found::Held(Holders::One(_)) => Some(Mode::Exclusive),
            Found::Held(Holders::Many(crowd)) => Some(crowd.mode()),
            _ => None,
        }
    }

    /// The grant of `token`, even if its lease is over.
    #[must_use]
    pub fn grant(&self, token: &[u8]) -> Option<Grant<'_>> {
        match self {
            Found::Held(Holders::One(grant)) => (grant.token == token).then_some(*grant),
            Found::Held(Holders::Many(crowd)) => crowd.holder(token).map(Holder::grant),
            _ => None,
        }
    }
}

/// A grant that owns its text: a member of a crowd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    token: Arc<[u8]>,
    meta: Box<[u8]>,
    fence: Fence,
    lease: Lease,
    client: ClientId,
    ephemeral: bool,
}

impl From<Grant<'_>> for Holder {
    fn from(grant: Grant<'_>) -> Holder {
        let Grant { token, fence, lease, client, ephemeral, meta } = grant;
        Holder { token: token.into(), meta: meta.into(), fence, lease, client, ephemeral }
    }
}

impl Holder {
    /// The grant it holds.
    #[must_use]
    pub fn grant(&self) -> Grant<'_> {
        let Holder { fence, lease, client, ephemeral, .. } = *self;
        Grant { token: &self.token, fence, lease, client, ephemeral, meta: &self.meta }
    }
}

/// The holders of a shared lock or of a semaphore, by token: the order is the same on every copy of the lock.
#[derive(Clone, Debug)]
pub struct Crowd {
    mode: Mode,
    /// Boxed, because the map has room for eleven at least.
    holders: BTreeMap<Arc<[u8]>, Box<Holder>>,
    by_end: BTreeSet<(Deadline, Arc<[u8]>)>,
    top: Fence,
    /// The sum of the holders' sizes.
    size: usize,
}

impl Crowd {
    /// A crowd without holders.
    #[must_use]
    pub fn new(mode: Mode) -> Crowd {
        Crowd { mode, holders: BTreeMap::new(), by_end: BTreeSet::new(), top: Fence(0), size: 0 }
    }

    /// An estimate of the bytes that the holders take.
    #[must_use]
    pub fn size(&self) -> usize {
        FIRST + self.size
    }

    /// Shared, or a semaphore with its permits.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// The number of holders.
    #[must_use]
    pub fn len(&self) -> usize {
        self.holders.len()
    }

    /// True if there are no holders.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.holders.is_empty()
    }

    /// The largest fence of all present and past holders.
    #[must_use]
    pub fn top(&self) -> Fence {
        self.top
    }

    /// The number of holders with leases that are not over.
    #[must_use]
    pub fn holding(&self, now: Instant) -> usize {
        self.len() - self.by_end.iter().take_while(|(end, _)| end.is_over(now)).count()
    }

    /// The holders, in the order of their tokens.
    pub fn grants(&self) -> impl ExactSizeIterator<Item = Grant<'_>> {
        self.holders.values().map(|holder| holder.grant())
    }

    /// The holder with this token.
    #[must_use]
    pub fn holder(&self, token: &[u8]) -> Option<&Holder> {
        self.holders.get(token).map(Box::as_ref)
    }

    /// The end of the lease that ends first.
    #[must_use]
    pub fn first_end(&self) -> Option<Deadline> {
        self.by_end.first().map(|(end, _)| *end)
    }

    /// The end of the lease that ends last.
    #[must_use]
    pub fn last_end(&self) -> Option<Deadline> {
        self.by_end.last().map(|(end, _)| *end)
    }

    /// Adds a holder, or replaces a holder's grant. A semaphore has the number of permits of its newest grant.
    pub fn add(&mut self, mode: Mode, grant: Grant<'_>) {
        self.mode = mode;
        self.remove(grant.token);
        self.top = self.top.max(grant.fence);
        self.size += size(grant.token, grant.meta);
        let holder = Box::new(Holder::from(grant));
        self.by_end.insert((grant.lease.end, holder.token.clone()));
        self.holders.insert(holder.token.clone(), holder);
        // A snapshot of more holders would be refused as damaged.
        debug_assert!(self.len() <= mode.room(), "a semaphore has a permit for each holder");
    }

    /// Removes the holder with this token.
    pub fn remove(&mut self, token: &[u8]) -> Option<Box<Holder>> {
        let holder = self.holders.remove(token)?;
        self.by_end.remove(&(holder.lease.end, holder.token.clone()));
        self.size -= size(&holder.token, &holder.meta);
        Some(holder)
    }

    /// The holder with the earliest end, if its lease is over.
    #[must_use]
    pub fn first_over(&self, now: Instant) -> Option<&Holder> {
        let (end, token) = self.by_end.first()?;
        if end.is_over(now) { self.holder(token) } else { None }
    }

    fn admits(&self, mode: Mode) -> bool {
        self.is_empty() || (mode.is_like(self.mode) && self.len() < mode.room())
    }
}

/// The bytes of the two indexes for the first holders: each makes room for eleven at once.
const FIRST: usize = 530;

/// The bytes of a holder's record and of its entries in the indexes.
fn size(token: &[u8], meta: &[u8]) -> usize {
    200 + token.len() + meta.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(token: &[u8], end: u64) -> Grant<'_> {
        Grant {
            token,
            fence: Fence(1),
            lease: Lease { ttl: Millis(1), end: Deadline(end), since: Instant(0) },
            client: ClientId::UNKNOWN,
            ephemeral: false,
            meta: b"",
        }
    }

    #[test]
    fn a_crowd_knows_how_large_it_is_whatever_has_happened_to_it() {
        let mut crowd = Crowd::new(Mode::Shared);
        crowd.add(Mode::Shared, Grant { meta: b"one", ..grant(b"a", 1) });
        crowd.add(Mode::Shared, Grant { meta: b"three", ..grant(b"bb", 1) });
        assert_eq!(crowd.size(), FIRST + 204 + 207);
        crowd.add(Mode::Shared, Grant { meta: b"", ..grant(b"a", 2) });
        crowd.add(Mode::Shared, Grant { meta: b"longer than three", ..grant(b"bb", 5) });
        assert_eq!(crowd.size(), FIRST + 201 + 219);
        crowd.remove(b"a");
        crowd.remove(b"bb");
        crowd.remove(b"bb");
        assert_eq!(crowd.size(), FIRST);
    }

    #[test]
    fn the_first_lease_to_end_is_the_first_to_go() {
        let mut crowd = Crowd::new(Mode::Shared);
        crowd.add(Mode::Shared, grant(b"late", 9));
        crowd.add(Mode::Shared, grant(b"early", 3));
        assert_eq!(crowd.first_end(), Some(Deadline(3)));
        assert!(crowd.first_over(Instant(2_999)).is_none());
        assert_eq!(crowd.first_over(Instant(3_000)).map(|h| h.grant().token), Some(&b"early"[..]));
        for (now, holding) in [(2_999, 2), (3_000, 1), (8_999, 1), (9_000, 0)] {
            assert_eq!(crowd.holding(Instant(now)), holding, "{now}");
        }
        assert!(crowd.remove(b"early").is_some());
        assert_eq!(crowd.first_end(), Some(Deadline(9)));
        assert!(crowd.holder(b"early").is_none());
    }
}
