//! The compact format of an exclusive lock in memory.
//!
//! A server may hold millions of locks, so every field counts beside the plain string in common use. A 20-byte
//! key with a 32-byte token takes 74 bytes here, everything included. The record contains the key, because the
//! deadline index refers to this record only.
//!
//! ```text
//! flags  fence:7  end:5  ttl  client  since | late:2  [db]  [meta length]  key length  key  [meta]  token
//! ```
//!
//! Numbers are varints, except for the fence, the end and `late`, which have a fixed size. A lease that was not
//! extended began at its end less its length, less `late`: the microseconds added by rounding up. The token is
//! the rest. The upper four flags are the host's.

use alloc::vec::Vec;

use crate::lock::Grant;
use crate::stored::varint::{Reader, put, put_fixed};
use crate::words::{ClientId, Deadline, Fence, Instant, Key, Lease, Millis};

const EPHEMERAL: u8 = 1;
const HAS_SINCE: u8 = 2;
const HAS_DB: u8 = 4;
const HAS_META: u8 = 8;

/// Appends the record of a grant at a key without its flags, which it returns.
///
/// A lease must end within the 34 years that five bytes of milliseconds can count.
pub fn pack(key: Key<'_>, grant: &Grant<'_>, out: &mut Vec<u8>) -> u8 {
    let Lease { ttl, end, since } = grant.lease;
    let late = begun(end.0, ttl.0).checked_sub(since.0).filter(|late| *late < 1000);
    let flag = |set: bool, flag: u8| if set { flag } else { 0 };
    let flags = flag(grant.ephemeral, EPHEMERAL)
        | flag(late.is_none(), HAS_SINCE)
        | flag(key.db != 0, HAS_DB)
        | flag(!grant.meta.is_empty(), HAS_META);
    out.reserve(24 + key.name.len() + grant.meta.len() + grant.token.len());
    put_fixed::<7>(out, grant.fence.0);
    put_fixed::<5>(out, end.0);
    put(out, ttl.0);
    put(out, grant.client.0);
    match late {
        Some(late) => put_fixed::<2>(out, late),
        None => put(out, since.0),
    }
    if flags & HAS_DB != 0 {
        put(out, u64::from(key.db));
    }
    if flags & HAS_META != 0 {
        put(out, grant.meta.len() as u64);
    }
    put(out, key.name.len() as u64);
    out.extend_from_slice(key.name);
    out.extend_from_slice(grant.meta);
    out.extend_from_slice(grant.token);
    flags
}

/// The latest beginning of a lease that was not extended, in microseconds.
fn begun(end: u64, ttl: u64) -> u64 {
    end.saturating_sub(ttl).saturating_mul(1000)
}

/// The end of the lease in a record, read without the rest.
#[must_use]
pub fn end(record: &[u8]) -> Option<Deadline> {
    let mut reader = Reader(record);
    reader.bytes(7)?;
    reader.fixed::<5>().map(Deadline)
}

/// Reads a record that [`pack`] wrote; `None`: it is not one.
#[must_use]
pub fn unpack(flags: u8, record: &[u8]) -> Option<(Key<'_>, Grant<'_>)> {
    let mut reader = Reader(record);
    let fence = Fence(reader.fixed::<7>()?);
    let end = reader.fixed::<5>()?;
    let ttl = reader.number()?;
    let client = ClientId(reader.number()?);
    let since = if flags & HAS_SINCE != 0 {
        reader.number()?
    } else {
        begun(end, ttl).saturating_sub(reader.fixed::<2>()?)
    };
    let mut optional =
        |flag| if flags & flag != 0 { reader.number().map(Some) } else { Some(None) };
    let db = optional(HAS_DB)?.unwrap_or(0);
    let meta_len = optional(HAS_META)?.unwrap_or(0);
    let name_len = reader.number()?;
    let name = reader.bytes(usize::try_from(name_len).ok()?)?;
    let meta = reader.bytes(usize::try_from(meta_len).ok()?)?;
    let lease = Lease { ttl: Millis(ttl), end: Deadline(end), since: Instant(since) };
    let ephemeral = flags & EPHEMERAL != 0;
    let grant = Grant { token: reader.0, fence, lease, client, ephemeral, meta };
    Some((Key { db: u32::try_from(db).ok()?, name }, grant))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{MAX_FENCE, MAX_TTL_CEILING};
    use proptest::prelude::*;

    #[test]
    fn a_usual_lock_fits_in_74_bytes() {
        let grant = Grant {
            token: &[b't'; 32],
            fence: Fence(1_790_000_000_000_000),
            lease: Lease::begin(Instant(123_456_789), Millis(30_000)),
            client: ClientId(9_999),
            ephemeral: false,
            meta: b"",
        };
        let mut out = Vec::new();
        pack(Key { db: 0, name: &[b'k'; 20] }, &grant, &mut out);
        // The flags are one more byte, and the length, which the host keeps, is another.
        assert!(out.len() <= 72, "{}", out.len());
    }

    proptest! {
        #[test]
        fn what_is_packed_is_unpacked(
            db: u32, name: Vec<u8>, token: Vec<u8>, meta: Vec<u8>, client: u64, ephemeral: bool,
            fence in 1..=MAX_FENCE, ttl in 1..=MAX_TTL_CEILING, since in 0_u64..1 << 48,
            extended in proptest::option::of(0_u64..1 << 48),
        ) {
            let began = Lease::begin(Instant(since), Millis(ttl));
            let lease = match extended {
                Some(at) => Lease { since: began.since, ..Lease::begin(Instant(at), Millis(ttl)) },
                None => began,
            };
            let key = Key { db, name: &name };
            let grant = Grant {
                token: &token, fence: Fence(fence), lease, client: ClientId(client), ephemeral, meta: &meta,
            };
            let mut out = Vec::new();
            let flags = pack(key, &grant, &mut out);
            prop_assert_eq!(unpack(flags | 0xf0, &out), Some((key, grant)));
            prop_assert_eq!(super::end(&out), Some(lease.end));
        }

        #[test]
        fn garbage_never_panics(flags: u8, bytes: Vec<u8>) {
            let _ = unpack(flags, &bytes);
        }
    }
}
