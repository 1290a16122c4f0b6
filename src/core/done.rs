//! A mark that a lock is done: its holder's work need not be repeated for a while.
//!
//! The mark is data and no promise: the server keeps its expiry by the wall clock, as that of any key, and
//! may evict it; then the work is done again.

use alloc::vec::Vec;

use crate::limits::{MAX_FENCE, MAX_META};
use crate::varint::{Reader, put};
use crate::words::{Fence, Millis};

/// The content of a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done<'a> {
    /// The [number](crate::who::number) of the token that held the lock.
    pub by: u64,
    /// The fence of the claim whose work is done.
    pub fence: Fence,
    /// The largest fence of the key so far: the next holder's is larger.
    pub top: Fence,
    /// Unix time in milliseconds at which the holder said so.
    pub since: u64,
    /// The holder's words about the outcome.
    pub meta: &'a [u8],
}

/// The end of a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Until {
    /// Unix time in milliseconds.
    pub unix_ms: u64,
    /// The time left until then.
    pub left: Millis,
}

impl Until {
    /// The end at this Unix time in milliseconds, seen from a Unix time in microseconds. Zero: none; the
    /// server, which keeps the expiry, tells it apart.
    #[must_use]
    pub fn at(unix_ms: u64, unix: u64) -> Option<Until> {
        let left = Millis(unix_ms.saturating_sub(unix / 1000));
        (unix_ms > 0).then_some(Until { unix_ms, left })
    }
}

/// The version that [`Done::encode`] writes.
pub const VERSION: u8 = 1;

impl<'a> Done<'a> {
    /// Encodes the mark, without its end, as it is stored: `version fence top-fence since by meta`.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(40 + self.meta.len());
        out.push(VERSION);
        put(&mut out, self.fence.0);
        put(&mut out, self.top.0.saturating_sub(self.fence.0));
        put(&mut out, self.since);
        out.extend_from_slice(&self.by.to_le_bytes());
        out.extend_from_slice(self.meta);
        out
    }

    /// Decodes a mark. `None`: the bytes are none, or a later dlock has written them.
    #[must_use]
    pub fn decode(bytes: &'a [u8]) -> Option<Done<'a>> {
        let mut reader = Reader(bytes);
        reader.byte().filter(|version| *version == VERSION)?;
        let fence = reader.number().filter(|fence| (1..=MAX_FENCE).contains(fence))?;
        let top = fence.checked_add(reader.number()?).filter(|top| *top <= MAX_FENCE)?;
        let since = reader.number()?;
        let by = u64::from_le_bytes(reader.bytes(8)?.try_into().ok()?);
        let meta = Some(reader.0).filter(|meta| meta.len() <= MAX_META)?;
        Some(Done { by, fence: Fence(fence), top: Fence(top), since, meta })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_stored_mark_is_read_again(
            by: u64, fence in 1..=MAX_FENCE, more: u64, since: u64, meta in proptest::collection::vec(any::<u8>(), 0..=MAX_META),
        ) {
            let top = Fence(fence.saturating_add(more).min(MAX_FENCE));
            let done = Done { by, fence: Fence(fence), top, since, meta: &meta };
            let stored = done.encode();
            prop_assert_eq!(Done::decode(&stored), Some(done));
        }

        #[test]
        fn garbage_is_no_mark_or_a_canonical_one(mut bytes: Vec<u8>) {
            for first in [None, Some(VERSION)] {
                if let (Some(first), Some(byte)) = (first, bytes.first_mut()) {
                    *byte = first;
                }
                if let Some(done) = Done::decode(&bytes) {
                    prop_assert_eq!(done.encode(), bytes.clone());
                }
            }
        }
    }
}
