//! The lease bound: the longest run of a lease. One usual bound for all keys, and a few keys with longer ones.
//!
//! A value that dlock writes into the state file and sends to replicas. The rules for its content
//! are in [`bound_tracker`](super::bound_tracker).

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::{self, Write};

use sha2::{Digest, Sha256};

use crate::limits::{MAX_BOUND, MAX_LONG_KEYS};
use crate::words::Millis;

/// A key in a lease bound: the hash of its name, whatever its database is, so that MOVE and SWAPDB change
/// nothing.
///
/// If two keys had the same hash, dlock would wait for both, which is only too careful. But a client that
/// found a second key for another user's hash could keep that user's key in quarantine, so the hash is one
/// for which nobody finds a second name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyHash(u128);

impl KeyHash {
    /// The number of hex digits as text.
    pub const DIGITS: usize = 32;

    /// The hash of the key with this name.
    #[must_use]
    pub fn of(name: &[u8]) -> KeyHash {
        let digest = Sha256::digest(name);
        let half = digest.iter().take(16);
        KeyHash(half.fold(0, |hash, byte| hash << 8 | u128::from(*byte)))
    }

    /// Reads the hex digits.
    #[must_use]
    pub fn read(digits: &[u8]) -> Option<KeyHash> {
        let digits = core::str::from_utf8(digits).ok()?;
        u128::from_str_radix(digits, 16).ok().map(KeyHash)
    }
}

impl fmt::Display for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// The longest run of any lease, key by key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaseBound {
    usual: u64,
    /// Exceptions by hash: each key once, and each longer than the usual bound.
    long: Vec<(KeyHash, u64)>,
}

impl LeaseBound {
    /// A bound without exceptions.
    #[must_use]
    pub fn usual_of(usual: Millis) -> LeaseBound {
        LeaseBound { usual: usual.0, long: Vec::new() }
    }

    /// The bound of all keys but the exceptions.
    #[must_use]
    pub fn usual(&self) -> Millis {
        Millis(self.usual)
    }

    /// The exceptions: keys with longer leases, and their bounds.
    pub fn long(&self) -> impl Iterator<Item = (KeyHash, Millis)> + '_ {
        self.long.iter().map(|(hash, ms)| (*hash, Millis(*ms)))
    }

    /// The number of exceptions.
    #[must_use]
    pub fn long_keys(&self) -> usize {
        self.long.len()
    }

    /// The bound of the key.
    #[must_use]
    pub fn of(&self, hash: KeyHash) -> Millis {
        self.exception(hash).unwrap_or(self.usual())
    }

    /// The bound of the key, if it is an exception.
    #[must_use]
    pub fn exception(&self, hash: KeyHash) -> Option<Millis> {
        let at = self.long.binary_search_by_key(&hash, |(hash, _)| *hash).ok()?;
        self.long.get(at).map(|(_, ms)| Millis(*ms))
    }

    /// The largest bound of all keys.
    #[must_use]
    pub fn longest(&self) -> Millis {
        Millis(self.long.iter().map(|(_, ms)| *ms).fold(self.usual, u64::max))
    }

    /// True if no key has a larger bound in `other`.
    #[must_use]
    pub fn covers(&self, other: &LeaseBound) -> bool {
        self.usual >= other.usual && other.long().all(|(hash, ms)| self.of(hash) >= ms)
    }

    /// Raises the usual bound to at least this.
    pub fn raise_usual(&mut self, to: Millis) {
        if to.0 > self.usual {
            self.usual = to.0;
            self.long.retain(|(_, ms)| *ms > to.0);
        }
    }

    /// Raises the bound of the key to at least this.
    pub fn raise(&mut self, hash: KeyHash, to: Millis) {
        match self.long.binary_search_by_key(&hash, |(hash, _)| *hash) {
            Ok(at) => {
                if let Some((_, ms)) = self.long.get_mut(at) {
                    *ms = (*ms).max(to.0);
                }
            }
            Err(at) if to.0 > self.usual => self.long.insert(at, (hash, to.0)),
            Err(_) => {}
        }
    }

    /// For each key the larger of both.
    #[must_use]
    pub fn join(&self, other: &LeaseBound) -> LeaseBound {
        let mut both = self.clone();
        both.raise_usual(other.usual());
        other.long().for_each(|(hash, ms)| both.raise(hash, ms));
        both
    }

    /// For each key the smaller of both.
    #[must_use]
    pub fn meet(&self, other: &LeaseBound) -> LeaseBound {
        let mut both = LeaseBound::usual_of(Millis(self.usual.min(other.usual)));
        for (hash, _) in self.long().chain(other.long()) {
            both.raise(hash, self.of(hash).min(other.of(hash)));
        }
        both
    }

    /// This bound rounded up, by an eighth at most, and not from within `dlock.usual-ttl` to beyond it.
    #[must_use]
    pub fn rounded_up(&self, usual_ttl: u64) -> LeaseBound {
        let up = |ms| no_further(rounded_up(ms), ms, usual_ttl);
        let mut rounded = LeaseBound::usual_of(up(self.usual()));
        self.long().for_each(|(hash, ms)| rounded.raise(hash, up(ms)));
        rounded
    }

    /// Drops the shortest exceptions beyond the room for them, and raises the usual bound instead.
    pub fn fit(&mut self) {
        if self.long.len() > MAX_LONG_KEYS {
            let mut lengths: Vec<Millis> = self.long().map(|(_, ms)| ms).collect();
            lengths.sort_unstable();
            let first_out = lengths.iter().rev().nth(MAX_LONG_KEYS);
            self.raise_usual(first_out.copied().unwrap_or(Millis(0)));
        }
    }

    /// Takes the exceptions out; the usual bound stays.
    pub fn take_long(&mut self) -> LeaseBound {
        LeaseBound { usual: 0, long: core::mem::take(&mut self.long) }
    }

    /// The exceptions as text, `HASH MS` each, between `before` and `after`.
    #[must_use]
    pub fn write_long(&self, before: &str, after: &str) -> String {
        let mut text = String::new();
        for (hash, ms) in &self.long {
            // Writing to a string does not fail.
            let _ = write!(text, "{before}{hash} {ms}{after}");
        }
        text
    }

    /// Reads an exception. `None`: the text is no exception, or one too many.
    pub fn read_long(&mut self, hash: &str, ms: &str) -> Option<()> {
        let hash = KeyHash::read(hash.as_bytes())?;
        let ms: u64 = ms.parse().ok().filter(|ms| (self.usual + 1..=MAX_BOUND).contains(ms))?;
        self.raise(hash, Millis(ms));
        (self.long.len() <= MAX_LONG_KEYS).then_some(())
    }
}

/// Limits a rounded lease to `dlock.usual-ttl`, unless the lease itself is longer.
pub fn no_further(rounded: Millis, ttl: Millis, usual_ttl: u64) -> Millis {
    if ttl.0 <= usual_ttl { rounded.min(Millis(usual_ttl)) } else { rounded }
}

/// The next number with four significant binary digits: at most an eighth more.
pub fn rounded_up(Millis(ms): Millis) -> Millis {
    let step = 1 << ms.checked_ilog2().unwrap_or(0).saturating_sub(3);
    Millis(ms.div_ceil(step).saturating_mul(step))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Few keys, so that they coincide.
    fn bound() -> impl Strategy<Value = LeaseBound> {
        (0..20_u64, prop::collection::vec((0..8_u8, 0..40_u64), 0..8)).prop_map(|(usual, long)| {
            let mut bound = LeaseBound::usual_of(Millis(usual));
            long.iter().for_each(|(key, ms)| bound.raise(KeyHash::of(&[*key]), Millis(*ms)));
            bound
        })
    }

    fn keys() -> impl Iterator<Item = KeyHash> {
        (0..10_u8).map(|key| KeyHash::of(&[key]))
    }

    #[test]
    fn a_name_has_one_hash_and_others_have_others() {
        assert_eq!(KeyHash::of(b"job:42"), KeyHash::of(b"job:42"));
        assert_ne!(KeyHash::of(b"job:42"), KeyHash::of(b"job:43"));
        let of_nothing = KeyHash(0xe3b0_c442_98fc_1c14_9afb_f4c8_996f_b924);
        assert_eq!(KeyHash::of(b""), of_nothing, "the same on every machine, and in every version");
    }

    #[test]
    fn where_there_is_no_room_for_more_keys_the_shortest_become_usual() {
        let mut bound = LeaseBound::usual_of(Millis(10));
        for key in 0..MAX_LONG_KEYS as u64 + 3 {
            bound.raise(KeyHash::of(&key.to_le_bytes()), Millis(1000 + key));
        }
        let before = bound.clone();
        bound.fit();
        assert_eq!((bound.usual(), bound.long_keys()), (Millis(1002), MAX_LONG_KEYS));
        assert!(bound.covers(&before));
    }

    proptest! {
        #[test]
        fn join_and_meet_are_what_they_say_of_each_key(a in bound(), b in bound()) {
            let (join, meet) = (a.join(&b), a.meet(&b));
            for key in keys() {
                prop_assert_eq!(join.of(key), a.of(key).max(b.of(key)));
                prop_assert_eq!(meet.of(key), a.of(key).min(b.of(key)));
            }
            let each = keys().all(|key| a.of(key) >= b.of(key));
            prop_assert_eq!(a.covers(&b), each);
            prop_assert!(join.long().all(|(_, ms)| ms > join.usual()));
            prop_assert!(a.rounded_up(15).covers(&a));
        }

        #[test]
        fn what_is_written_is_read(bound in bound()) {
            let text = bound.write_long("", " ");
            let words: Vec<&str> = text.split_terminator(' ').collect();
            let mut read = LeaseBound::usual_of(bound.usual());
            for pair in words.chunks(2) {
                prop_assert_eq!(read.read_long(pair[0], pair[1]), Some(()));
            }
            prop_assert_eq!(read, bound);
        }

        #[test]
        fn it_is_rounded_by_an_eighth_at_most(ms in 0..u64::from(u32::MAX) * 2) {
            let rounded = rounded_up(Millis(ms));
            prop_assert!(rounded.0 >= ms && rounded.0 - ms <= ms / 8, "{ms} {rounded:?}");
            prop_assert_eq!(rounded_up(rounded), rounded);
        }
    }
}
