//! The completion record of a lock: the holder's work need not be repeated for a while.
//!
//! The record is data and not a promise. The server keeps its expiry by the wall clock, like the expiry of any
//! key, and may evict it; then the work is done again.

use alloc::vec::Vec;

use crate::limits::{MAX_FENCE, MAX_META};
use crate::node::shares;
use crate::stored::varint::{Reader, put, put_fixed};
use crate::words::{Fence, Millis, Owner};

/// The content of a completion record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done<'a> {
    /// The [number](crate::node::who::number) of the token that held the lock.
    pub by: u64,
    /// The fence of the finished claim.
    pub fence: Fence,
    /// The largest fence of the key so far: the next holder's is larger.
    pub top: Fence,
    /// Unix time in milliseconds of the release with DONE.
    pub since: u64,
    /// The user that made it, or [`NO_MAKER`].
    pub maker: u32,
    /// The holder's text about the outcome.
    pub meta: &'a [u8],
}

/// The end of a completion record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Until {
    /// Unix time in milliseconds.
    pub unix_ms: u64,
    /// The time left until then.
    pub left: Millis,
}

impl Until {
    /// The end at this Unix time in milliseconds, seen from a Unix time in microseconds. Zero: none; the
    /// server, which keeps the expiry, sends it apart.
    #[must_use]
    pub fn at(unix_ms: u64, unix: u64) -> Option<Until> {
        let left = Millis(unix_ms.saturating_sub(unix / 1000));
        (unix_ms > 0).then_some(Until { unix_ms, left })
    }
}

/// The version of the form that [`Done::encode`] writes. The server stores it beside the record.
pub const VERSION: u8 = 1;

/// The latest Unix time in milliseconds that a record can have: in the year 10889.
const LATEST: u64 = (1 << 48) - 1;

/// The maker of a record that counts for no user: a client has restored it, and could have named any user.
pub const NO_MAKER: u32 = u32::MAX;

/// The number of a user in its completion records. Two users with the same number share one limit.
#[must_use]
pub fn maker(owner: Owner) -> u32 {
    // u32::MAX is left out.
    (owner.0 >> 33) as u32
}

/// The number of units that a record counts for, with a name and text of these lengths. A record may stay for a
/// year, and a long name takes the memory of several records.
#[must_use]
pub fn units(name: usize, meta: usize) -> u64 {
    shares::units(name.next_power_of_two() + meta)
}

impl<'a> Done<'a> {
    /// Encodes the record, without its end, as it is stored: `fence top-fence since by maker meta`. Every
    /// request for the lock reads it, so most numbers have a fixed length.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(32 + self.meta.len());
        put_fixed::<7>(&mut out, self.fence.0);
        put(&mut out, self.top.0.saturating_sub(self.fence.0));
        put_fixed::<6>(&mut out, self.since.min(LATEST));
        put_fixed::<8>(&mut out, self.by);
        put_fixed::<4>(&mut out, self.maker.into());
        out.extend_from_slice(self.meta);
        out
    }

    /// Decodes a record. `None`: the bytes are not a record.
    #[must_use]
    pub fn decode(bytes: &'a [u8]) -> Option<Done<'a>> {
        let mut reader = Reader(bytes);
        let fence = reader.fixed::<7>().filter(|fence| (1..=MAX_FENCE).contains(fence))?;
        let top = fence.checked_add(reader.number()?).filter(|top| *top <= MAX_FENCE)?;
        let since = reader.fixed::<6>()?;
        let by = reader.fixed::<8>()?;
        let maker = u32::try_from(reader.fixed::<4>()?).ok()?;
        let meta = Some(reader.0).filter(|meta| meta.len() <= MAX_META)?;
        Some(Done { by, fence: Fence(fence), top: Fence(top), since, maker, meta })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_stored_record_is_read_again(
            by: u64, fence in 1..=MAX_FENCE, more: u64, since in 0..=LATEST, maker: u32, meta in proptest::collection::vec(any::<u8>(), 0..=MAX_META),
        ) {
            let top = Fence(fence.saturating_add(more).min(MAX_FENCE));
            let done = Done { by, fence: Fence(fence), top, since, maker, meta: &meta };
            let stored = done.encode();
            prop_assert_eq!(Done::decode(&stored), Some(done));
        }

        #[test]
        fn garbage_is_no_record_or_a_canonical_one(bytes in proptest::collection::vec(any::<u8>(), 0..99)) {
            if let Some(done) = Done::decode(&bytes) {
                prop_assert_eq!(done.encode(), bytes);
            }
        }
    }
}
