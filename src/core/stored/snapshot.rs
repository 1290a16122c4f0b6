//! The versioned format of a lock in RDB files and DUMP payloads.
//!
//! The format holds lengths and no dates: a loaded lease starts at its full length again, so it ends late and
//! never early. The reader checks every byte.
//!
//! ```text
//! version:1  mode  permits  holders  (token length  token  meta length  meta  fence  ttl  flags)*
//! ```

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use crate::command::apply::Granted;
use crate::limits::{MAX_FENCE, MAX_META, MAX_TOKEN, MAX_TTL_CEILING};
use crate::lock::Grant;
use crate::stored::varint::{Reader, put};
use crate::words::{Fence, Millis, Mode};

/// The version that [`encode`] writes.
pub const VERSION: u8 = 1;

const EPHEMERAL: u8 = 1;

/// The reason why stored bytes are not a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// A later version of dlock wrote them.
    Version(u8),
    /// No version wrote them.
    Damaged,
}

/// Encodes a lock: its mode and its holders. A lock may have no holders left.
pub fn encode<'a>(mode: Mode, grants: impl ExactSizeIterator<Item = Grant<'a>>) -> Vec<u8> {
    let mut out = Vec::with_capacity(64);
    out.push(VERSION);
    out.push(match mode {
        Mode::Exclusive => 0,
        Mode::Shared => 1,
        Mode::Limit(_) => 2,
    });
    put(&mut out, u64::from(mode.permits()));
    put(&mut out, grants.len() as u64);
    for grant in grants {
        put_text(&mut out, grant.token);
        put_text(&mut out, grant.meta);
        put(&mut out, grant.fence.0);
        put(&mut out, grant.lease.ttl.0);
        out.push(if grant.ephemeral { EPHEMERAL } else { 0 });
    }
    out
}

/// Decodes a lock.
///
/// # Errors
/// Fails if the bytes are not what [`encode`] writes, in every detail.
pub fn decode(bytes: &[u8]) -> Result<(Mode, Vec<Granted<'_>>), Unreadable> {
    let mut reader = Reader(bytes);
    match reader.byte() {
        Some(VERSION) => {}
        Some(later) if later > VERSION => return Err(Unreadable::Version(later)),
        _ => return Err(Unreadable::Damaged),
    }
    let lock = read(&mut reader).ok_or(Unreadable::Damaged)?;
    if reader.0.is_empty() { Ok(lock) } else { Err(Unreadable::Damaged) }
}

fn read<'a>(reader: &mut Reader<'a>) -> Option<(Mode, Vec<Granted<'a>>)> {
    let (kind, permits) = (reader.byte()?, u16::try_from(reader.number()?).ok()?);
    let (mode, room) = match (kind, permits) {
        (0, 0) => (Mode::Exclusive, 1),
        (1, 0) => (Mode::Shared, crate::limits::MAX_HOLDERS),
        (2, n @ 1..) => (Mode::Limit(n), usize::from(n)),
        _ => return None,
    };
    let count = usize::try_from(reader.number()?).ok().filter(|count| *count <= room)?;
    let mut tokens = BTreeSet::new();
    let mut holders = Vec::new();
    for _ in 0..count {
        let holder = read_holder(reader, mode)?;
        if !tokens.insert(holder.token) {
            return None;
        }
        holders.push(holder);
    }
    Some((mode, holders))
}

fn read_holder<'a>(reader: &mut Reader<'a>, mode: Mode) -> Option<Granted<'a>> {
    Some(Granted {
        token: read_text(reader, 1, MAX_TOKEN)?,
        meta: read_text(reader, 0, MAX_META)?,
        fence: Fence(reader.number().filter(|fence| (1..=MAX_FENCE).contains(fence))?),
        ttl: Millis(reader.number().filter(|ttl| (1..=MAX_TTL_CEILING).contains(ttl))?),
        mode,
        ephemeral: match reader.byte()? {
            0 => false,
            EPHEMERAL => true,
            _ => return None,
        },
    })
}

fn put_text(out: &mut Vec<u8>, text: &[u8]) {
    put(out, text.len() as u64);
    out.extend_from_slice(text);
}

fn read_text<'a>(reader: &mut Reader<'a>, least: usize, most: usize) -> Option<&'a [u8]> {
    let len = usize::try_from(reader.number()?).ok()?;
    if (least..=most).contains(&len) { reader.bytes(len) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::{ClientId, Instant, Lease};
    use proptest::prelude::*;

    fn grants(n: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
        (0..n).map(|i| (std::format!("token-{i}").into_bytes(), std::vec![b'm'; i * 9])).collect()
    }

    fn stored(mode: Mode, texts: &[(Vec<u8>, Vec<u8>)]) -> Vec<u8> {
        let holders: Vec<Grant<'_>> = texts
            .iter()
            .enumerate()
            .map(|(i, (token, meta))| Grant {
                token,
                meta,
                fence: Fence(7 + i as u64),
                lease: Lease::begin(Instant(5), Millis(1000)),
                client: ClientId(3),
                ephemeral: i % 2 == 1,
            })
            .collect();
        encode(mode, holders.into_iter())
    }

    #[test]
    fn what_is_stored_is_loaded() {
        for (mode, n) in
            [(Mode::Exclusive, 1), (Mode::Shared, 5), (Mode::Limit(3), 3), (Mode::Shared, 0)]
        {
            let texts = grants(n);
            let bytes = stored(mode, &texts);
            let (loaded, holders) = decode(&bytes).unwrap();
            assert_eq!(loaded, mode);
            assert_eq!(holders.len(), n);
            for (i, (holder, (token, meta))) in holders.iter().zip(&texts).enumerate() {
                assert_eq!((holder.token, holder.meta), (&token[..], &meta[..]));
                assert_eq!((holder.fence, holder.ttl), (Fence(7 + i as u64), Millis(1000)));
                assert_eq!(holder.ephemeral, i % 2 == 1);
            }
        }
    }

    #[test]
    fn a_cut_or_longer_payload_is_damaged() {
        let bytes = stored(Mode::Limit(3), &grants(3));
        for len in 0..bytes.len() {
            assert_eq!(decode(&bytes[..len]), Err(Unreadable::Damaged), "{len}");
        }
        assert_eq!(decode(&[&bytes[..], b"x"].concat()), Err(Unreadable::Damaged));
    }

    #[test]
    fn a_payload_of_a_later_version_says_so_and_there_was_none_before_the_first() {
        let as_of = |version| [&[version], &stored(Mode::Exclusive, &grants(1))[1..]].concat();
        assert_eq!(decode(&as_of(VERSION + 1)), Err(Unreadable::Version(VERSION + 1)));
        assert_eq!(decode(&as_of(VERSION - 1)), Err(Unreadable::Damaged));
    }

    #[test]
    fn two_holders_with_one_token_are_damaged() {
        let twice = [grants(1), grants(1)].concat();
        assert_eq!(decode(&stored(Mode::Shared, &twice)), Err(Unreadable::Damaged));
        assert_eq!(decode(&stored(Mode::Exclusive, &grants(2))), Err(Unreadable::Damaged));
    }

    /// Checks that readable bytes are written again, byte for byte: a lock has one form.
    fn assert_canonical(bytes: &[u8]) {
        let Ok((mode, holders)) = decode(bytes) else { return };
        let lease = |ttl| Lease::begin(Instant(5), ttl);
        let grants: Vec<Grant<'_>> = holders.iter().map(|one| one.grant(lease(one.ttl))).collect();
        assert_eq!(encode(mode, grants.into_iter()), bytes);
    }

    #[test]
    fn a_number_in_more_bytes_than_it_needs_is_damaged() {
        let good = stored(Mode::Exclusive, &grants(1));
        // The number of permits, and the number of holders.
        for at in [2, 3] {
            let padded = [&good[..at], &[good[at] | 0x80, 0], &good[at + 1..]].concat();
            assert_eq!(decode(&padded), Err(Unreadable::Damaged), "{at}");
        }
    }

    #[test]
    fn every_bit_of_a_stored_lock_means_something() {
        for (mode, n) in [(Mode::Exclusive, 1), (Mode::Shared, 3), (Mode::Limit(4), 4)] {
            let good = stored(mode, &grants(n));
            let read = decode(&good).unwrap();
            assert_canonical(&good);
            for at in 0..good.len() * 8 {
                let mut flipped = good.clone();
                flipped[at / 8] ^= 1 << (at % 8);
                assert_ne!(decode(&flipped).as_ref(), Ok(&read), "bit {at}");
                assert_canonical(&flipped);
            }
        }
    }

    proptest! {
        #[test]
        fn garbage_never_panics_and_what_is_read_is_written_again(
            bytes: Vec<u8>, kind in 0_u8..3, at: usize, new: u8,
        ) {
            assert_canonical(&bytes);
            // After a valid beginning the decoder reads further.
            assert_canonical(&[&[VERSION, kind][..], &bytes].concat());
            let mut other = stored(Mode::Limit(4), &grants(4));
            let at = at % other.len();
            other[at] = new;
            assert_canonical(&other);
        }
    }
}
