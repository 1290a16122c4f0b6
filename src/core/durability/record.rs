//! The record in the state file, which survives the server's process.
//!
//! ```text
//! dlock-state 1
//! node-id 6f0c2f0f4c1e4b6a9d0c5f3a2b1c0d9e
//! boot 3
//! fence 1790000060000000
//! clock 1790000000000000
//! bound-ms 30720
//! ended 2 leases 77f1c05fd0a1b2c300f1c05fd0a1b2c3
//! checksum 0f1e2d3c4b5a6978
//! ```
//!
//! The text is plain, so that an operator can read it. While the server runs `ended` says `not cleanly`. There
//! is exactly one way to write a record; all other text is refused.

use alloc::format;
use alloc::string::String;
use core::fmt;

use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use crate::limits::MAX_BOUND;
use crate::lock::Grant;
use crate::words::{Fence, Key, Millis, Mode};

/// The state that a node must not forget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The node's identity, made at its first start.
    pub node_id: u128,
    /// The number of starts.
    pub boot: u64,
    /// The node has handed out no fence above this one.
    pub fence: Fence,
    /// The time of the write, in µs of Unix time; zero: unknown.
    pub unix: u64,
    /// The lease bound: no lease runs longer.
    pub bound: Millis,
    /// The leases held at the shutdown; `None`: there was no clean shutdown yet.
    pub ended: Option<Ended>,
}

/// A set of leases: their number, and a digest to compare sets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// The number of leases.
    pub leases: u64,
    /// Equal for the same leases in any order.
    pub digest: u128,
}

/// The reason why bytes are not a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// A later version of dlock wrote them.
    Version(u64),
    /// The bytes are damaged.
    Damaged,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unreadable::Version(version) => {
                write!(f, "has version {version}, which a later dlock has written")
            }
            Unreadable::Damaged => f.write_str("is damaged"),
        }
    }
}

impl Record {
    /// The record as text for the file.
    #[must_use]
    pub fn encode(&self) -> String {
        let Record { node_id, boot, fence: Fence(fence), unix, bound: Millis(bound), .. } = self;
        let ended = match self.ended {
            Some(Ended { leases, digest }) => format!("{leases} leases {digest:032x}"),
            None => "not cleanly".into(),
        };
        let text = format!(
            "{MAGIC} {VERSION}\nnode-id {node_id:032x}\nboot {boot}\nfence {fence}\nclock {unix}\n\
             bound-ms {bound}\nended {ended}\n"
        );
        let checksum = xxh3_64(text.as_bytes());
        format!("{text}checksum {checksum:016x}\n")
    }

    /// Reads a record from a file.
    ///
    /// # Errors
    /// Fails if it is not exactly what [`Record::encode`] wrote.
    pub fn decode(bytes: &[u8]) -> Result<Record, Unreadable> {
        let text = core::str::from_utf8(bytes).map_err(|_| Unreadable::Damaged)?;
        let version = version(text).ok_or(Unreadable::Damaged)?;
        if version > VERSION {
            return Err(Unreadable::Version(version));
        }
        let same = |record: &Record| record.encode() == text;
        parse(text).filter(same).ok_or(Unreadable::Damaged)
    }
}

impl Ended {
    /// Adds a lease.
    pub fn add(&mut self, key: Key<'_>, mode: Mode, grant: &Grant<'_>) {
        let mut hash = Xxh3::new();
        for number in [u64::from(key.db), key.name.len() as u64, grant.fence.0, grant.lease.ttl.0] {
            hash.update(&number.to_le_bytes());
        }
        hash.update(&mode.permits().to_le_bytes());
        hash.update(mode.name().as_bytes());
        hash.update(key.name);
        hash.update(grant.token);
        self.leases += 1;
        self.digest = self.digest.wrapping_add(hash.digest128());
    }

    /// Adds a lease that no data set restores.
    pub fn add_evicted(&mut self) {
        self.leases += 1;
    }
}

/// The version of the file. A later version may have another checksum.
fn version(text: &str) -> Option<u64> {
    let line = text.lines().next()?;
    line.strip_prefix(MAGIC)?.strip_prefix(' ')?.parse().ok()
}

/// Reads generously; `decode` is strict.
fn parse(text: &str) -> Option<Record> {
    let mut lines = text.lines().skip(1);
    let mut value = |name| of(lines.next()?, name);
    let node_id = u128::from_str_radix(value("node-id")?, 16).ok()?;
    let boot = value("boot")?.parse().ok()?;
    let fence = Fence(value("fence")?.parse().ok()?);
    let unix = value("clock")?.parse().ok()?;
    let bound = value("bound-ms")?.parse().ok().filter(|ms| *ms <= MAX_BOUND).map(Millis)?;
    let ended = match value("ended")?.split_once(" leases ") {
        Some((leases, digest)) => Some(Ended {
            leases: leases.parse().ok()?,
            digest: u128::from_str_radix(digest, 16).ok()?,
        }),
        None => None,
    };
    Some(Record { node_id, boot, fence, unix, bound, ended })
}

/// The value in a line with this name.
fn of<'t>(line: &'t str, name: &str) -> Option<&'t str> {
    line.strip_prefix(name)?.strip_prefix(' ')
}

const MAGIC: &str = "dlock-state";
const VERSION: u64 = 1;
/// The largest length of a record, in bytes.
pub const MAX_LENGTH: u64 = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::{ClientId, Instant, Lease};
    use proptest::prelude::*;

    fn record() -> Record {
        let ended = Some(Ended { leases: 2, digest: 99 });
        let (fence, bound) = (Fence(1_790_000_060_000_000), Millis(30_720));
        let (node_id, unix) = (u128::MAX / 3, 1_790_000_000_000_000);
        Record { node_id, boot: 3, fence, unix, bound, ended }
    }

    #[test]
    fn what_is_written_is_read() {
        for ended in [None, Some(Ended::default()), Some(Ended { leases: 2, digest: u128::MAX })] {
            for bound in [0, 30_720, MAX_BOUND].map(Millis) {
                let record = Record { ended, bound, ..record() };
                let text = record.encode();
                assert!(text.len() as u64 <= MAX_LENGTH);
                assert_eq!(Record::decode(text.as_bytes()), Ok(record));
            }
        }
    }

    #[test]
    fn every_cut_and_every_flipped_bit_is_noticed() {
        let good = record().encode().into_bytes();
        assert!(good.len() as u64 <= MAX_LENGTH);
        for len in 0..good.len() {
            assert!(Record::decode(good.get(..len).unwrap_or_default()).is_err(), "cut to {len}");
        }
        for at in 0..good.len() {
            for bit in 0..8 {
                let mut bad = good.clone();
                bad[at] ^= 1 << bit;
                assert!(Record::decode(&bad).is_err(), "byte {at} bit {bit}");
            }
        }
    }

    #[test]
    fn a_later_version_is_named() {
        let later = record().encode().replace("dlock-state 1", "dlock-state 2");
        assert_eq!(Record::decode(later.as_bytes()), Err(Unreadable::Version(2)));
    }

    #[test]
    fn a_bound_longer_than_any_lease_was_not_written() {
        let text = Record { bound: Millis(MAX_BOUND + 1), ..record() }.encode();
        assert_eq!(Record::decode(text.as_bytes()), Err(Unreadable::Damaged));
    }

    #[test]
    fn leases_are_known_again_in_any_order_and_others_are_not() {
        let add = |ended: &mut Ended, name: &[u8], token: &[u8], fence, ttl| {
            let lease = Lease::begin(Instant(0), Millis(ttl));
            let client = ClientId::UNKNOWN;
            let fence = Fence(fence);
            let grant = Grant { token, fence, lease, client, ephemeral: false, meta: b"" };
            ended.add(Key { db: 0, name }, Mode::Exclusive, &grant);
        };
        let of = |leases: &[(&[u8], &[u8], u64, u64)]| {
            let mut ended = Ended::default();
            leases.iter().for_each(|(key, token, fence, ttl)| {
                add(&mut ended, key, token, *fence, *ttl);
            });
            ended
        };
        let (a, b) = ((&b"a"[..], &b"t"[..], 1, 5), (&b"b"[..], &b"u"[..], 2, 5));
        assert_eq!(of(&[a, b]), of(&[b, a]));
        assert_eq!(of(&[a, b]).leases, 2);
        let others: [&[_]; 6] = [
            &[a],
            &[a, a],
            &[a, (b"b", b"u", 3, 5)],
            &[a, (b"b", b"u", 2, 6)],
            &[a, (b"b", b"v", 2, 5)],
            &[a, (b"bu", b"", 2, 5)],
        ];
        for other in others {
            assert_ne!(of(&[a, b]), of(other));
        }
    }

    proptest! {
        #[test]
        fn no_bytes_are_too_strange(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            prop_assert!(Record::decode(&bytes).is_err());
        }
    }
}
