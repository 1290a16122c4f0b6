//! `DLOCK.APPLY key effect [meta]`: an effect for replicas and the AOF.
//!
//! An effect says what the primary decided, never what a client asked, and gives the lease's length, never
//! a date. It is one argument, because every argument costs the server something at each grant:
//!
//! ```text
//! +30000 1790000000000000 x token     the token holds exclusively, this long, with this fence
//! +30000 1790000000000000 s token     as one of many readers
//! +30000 1790000000000000 3 token     with one of three permits
//! +30000 1790000000000000 xe token    until its connection closes, where it was made
//! -token                              the token no longer holds the lock
//! *1790000000000 178… 179… 179… 7 9   the lock is done until this Unix time in ms, since that one, with this
//!                                     fence; the key's largest fence; numbers of its holder's token and user;
//!                                     0: a rewritten AOF sends the expiry apart
//! !                                   the key is removed: a lock, a completion record, or a plain string
//! =1790000000000000                   the mark has this fence, and no expiry; 0: there is no mark
//! ^1790000000000000                   no fence above this one was handed out, but at keys as below:
//! ^1790000000000000 e3b0c442… 17      at the key with this hash and counter
//! &1790000000000000 60000 179… 0      the arguments of DLOCK.PROMISE
//! ```
//!
//! The last three serve migrations of slots. `^` goes to the server that takes the slots over, because keys
//! without holders take no fence along. Keys that are far ahead of the clock are sent one by one. `&` goes to
//! replicas during a migration: Valkey 9 may take a command without a key for one with keys of two slots, and
//! abort the migration.
//!
//! `*` has the only dates, because the server keeps the expiry of a key by the wall clock.

use alloc::format;
use alloc::vec::Vec;

use super::read::{self, Args};
use super::{Arg, Doc, Kind, Refusal, Touch, promise};
use crate::durability::keys_ahead::KeyAhead;
use crate::durability::keys_ahead::KeyHash;
use crate::durability::promise::Promise;
use crate::durability::slot::Slot;
use crate::limits::{MAX_FENCE, MAX_LIMIT, MAX_TTL_CEILING};
use crate::lock::Grant;
use crate::lock::done::{Done, NO_MAKER, Until};
use crate::words::{ClientId, Fence, Lease, Millis, Mode};

/// The command's documentation.
pub const DOC: Doc = Doc {
    name: "DLOCK.APPLY",
    summary: "Internal: carries effects to replicas and the AOF",
    complexity: "O(1); O(log(N)) where N is the number of holders",
    arity: -3,
    flags: "write admin",
    acl: "write admin dangerous",
    key: Some(Touch::Makes),
    args: &[
        Arg::KEY,
        Arg::plain("effect", Kind::Text),
        Arg { optional: true, ..Arg::plain("meta", Kind::Text) },
    ],
};

/// Returns the fence of a mark's effect; [`fenced::effect`](super::fenced::effect) reads it. `None`: the effect
/// is another one.
#[must_use]
pub fn mark(effect: &[u8]) -> Option<&[u8]> {
    effect.strip_prefix(b"=")
}

/// An effect on a lock or on a slot; effects on marks are read apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Apply<'a> {
    /// The token holds the lock.
    Grant(Granted<'a>),
    /// The token no longer holds the lock.
    End(&'a [u8]),
    /// The lock is done, until this Unix time in milliseconds; zero: the server sends the expiry apart.
    Done(Done<'a>, u64),
    /// The key is removed.
    Remove,
    /// The source handed out no fence above this one, but at keys that are far ahead.
    Floor(Fence),
    /// The source handed out no fence above this one at such a key.
    Ahead(KeyHash, Slot, Fence),
    /// The primary's promise.
    Promise(Promise),
}

/// A grant, as replicas and the AOF get it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Granted<'a> {
    /// The token.
    pub token: &'a [u8],
    /// The length of the lease, which begins anew where it arrives.
    pub ttl: Millis,
    /// The fence.
    pub fence: Fence,
    /// The mode of the lock.
    pub mode: Mode,
    /// True if the grant ends with a connection: shown, but without effect where it arrives.
    pub ephemeral: bool,
    /// Text for an operator.
    pub meta: &'a [u8],
}

impl<'a> Granted<'a> {
    /// The grant with its lease on this server.
    #[must_use]
    pub fn grant(&self, lease: Lease) -> Grant<'a> {
        let Granted { token, fence, ephemeral, meta, .. } = *self;
        Grant { token, fence, lease, client: ClientId::UNKNOWN, ephemeral, meta }
    }
}

/// Reads the arguments after the key.
///
/// # Errors
/// Fails if they are not as the server writes them.
pub fn parse<'a>(args: &[&'a [u8]]) -> Result<Apply<'a>, Refusal<'a>> {
    let mut args = Args::new(args);
    let effect = args.need()?;
    let meta = read::meta(args.take().unwrap_or_default())?;
    args.end()?;
    match effect.split_first() {
        Some((b'-', token)) => Ok(Apply::End(read::token(token)?)),
        Some((b'+', grant)) => parse_grant(grant, meta),
        Some((b'*', done)) => parse_done(done, meta),
        Some((b'!', [])) => Ok(Apply::Remove),
        Some((b'^', floor)) => parse_floor(floor),
        Some((b'&', words)) => {
            let mut all = words.splitn(4, |byte| *byte == b' ');
            let mut room = [&[][..]; 4];
            let count = room.iter_mut().zip(&mut all).map(|(place, word)| *place = word).count();
            Ok(Apply::Promise(promise::parse(room.get(..count).unwrap_or_default())?))
        }
        _ => Err(Refusal::Malformed(DOC.name)),
    }
}

/// Writes a grant, as [`parse`] reads it. META is a separate argument.
pub fn write_grant(mode: Mode, grant: &Grant<'_>, out: &mut Vec<u8>) {
    put(out, b'+', &[grant.lease.ttl.0, grant.fence.0]);
    match mode {
        Mode::Exclusive => out.extend_from_slice(b" x"),
        Mode::Shared => out.extend_from_slice(b" s"),
        Mode::Limit(n) => put(out, b' ', &[n.into()]),
    }
    if grant.ephemeral {
        out.push(b'e');
    }
    out.push(b' ');
    out.extend_from_slice(grant.token);
}

/// Writes the new state of a mark.
pub fn write_mark(fence: Option<Fence>, out: &mut Vec<u8>) {
    put(out, b'=', &[fence.map_or(0, |fence| fence.0)]);
}

/// Writes that a lock is done. META is a separate argument.
pub fn write_done(done: &Done<'_>, until: Option<Until>, out: &mut Vec<u8>) {
    let until_ms = until.map_or(0, |until| until.unix_ms);
    let date = |unix_ms: u64| unix_ms.min(MAX_UNIX_MS);
    let (by, maker) = (done.by, u64::from(done.maker));
    put(out, b'*', &[date(until_ms), date(done.since), done.fence.0, done.top.0, by, maker]);
}

/// Writes that a token no longer holds the lock.
pub fn write_end(token: &[u8], out: &mut Vec<u8>) {
    out.push(b'-');
    out.extend_from_slice(token);
}

/// Writes the removal of a key.
pub fn write_removal(out: &mut Vec<u8>) {
    out.push(b'!');
}

/// Writes the largest fence that the source handed out.
pub fn write_floor(fence: Fence, out: &mut Vec<u8>) {
    put(out, b'^', &[fence.0]);
}

/// Writes the largest fence that the source handed out at a key that is far ahead.
pub fn write_ahead(key: &KeyAhead, fence: Fence, out: &mut Vec<u8>) {
    let KeyAhead { hash, slot, .. } = key;
    write_floor(fence, out);
    out.extend_from_slice(format!(" {hash} {}", slot.index()).as_bytes());
}

/// Writes a primary's promise.
pub fn write_promise(promise: &Promise, out: &mut Vec<u8>) {
    let Promise { fence, unix, bound, quarantine } = promise;
    put(out, b'&', &[fence.0, bound.0, *unix, quarantine.0]);
}

/// Writes numbers after a mark, separated by spaces.
fn put(out: &mut Vec<u8>, mark: u8, numbers: &[u64]) {
    let mut digits = itoa::Buffer::new();
    let mut before = mark;
    for number in numbers {
        out.push(before);
        out.extend_from_slice(digits.format(*number).as_bytes());
        before = b' ';
    }
}

fn parse_floor(floor: &[u8]) -> Result<Apply<'_>, Refusal<'_>> {
    let mut words = floor.split(|byte| *byte == b' ');
    let fence = words.next().unwrap_or_default();
    let fence = Fence(read::number("fence", fence, 0, MAX_FENCE)?);
    let Some(hash) = words.next() else { return Ok(Apply::Floor(fence)) };
    let hash = KeyHash::read(hash).ok_or(Refusal::Malformed(DOC.name))?;
    let slot = read::number("counter", words.next().unwrap_or_default(), 0, MAX_FENCE)?;
    let slot = Slot::at(slot).filter(|_| words.next().is_none());
    let slot = slot.ok_or(Refusal::Malformed(DOC.name))?;
    Ok(Apply::Ahead(hash, slot, fence))
}

fn parse_grant<'a>(grant: &'a [u8], meta: &'a [u8]) -> Result<Apply<'a>, Refusal<'a>> {
    // The token is the rest, spaces included.
    let mut words = grant.splitn(4, |byte| *byte == b' ');
    let mut word = || words.next().ok_or(Refusal::Malformed(DOC.name));
    let ttl = Millis(read::number("ttl-ms", word()?, 1, MAX_TTL_CEILING)?);
    let fence = Fence(read::number("fence", word()?, 1, MAX_FENCE)?);
    let mode = word()?;
    let (mode, ephemeral) = match mode.split_last() {
        Some((b'e', mode)) => (mode, true),
        _ => (mode, false),
    };
    let mode = parse_mode(mode)?;
    let token = read::token(word()?)?;
    Ok(Apply::Grant(Granted { token, ttl, fence, mode, ephemeral, meta }))
}

fn parse_done<'a>(done: &'a [u8], meta: &'a [u8]) -> Result<Apply<'a>, Refusal<'a>> {
    let mut words = done.splitn(6, |byte| *byte == b' ');
    let mut word = || words.next().ok_or(Refusal::Malformed(DOC.name));
    let until = read::number("until-ms", word()?, 0, MAX_UNIX_MS)?;
    let since = read::number("since-ms", word()?, 0, MAX_UNIX_MS)?;
    let fence = Fence(read::number("fence", word()?, 1, MAX_FENCE)?);
    let top = Fence(read::number("top", word()?, fence.0, MAX_FENCE)?);
    let by = read::number("by", word()?, 0, MAX_NUMBER)?;
    let maker = read::number("maker", word()?, 0, NO_MAKER.into())?;
    let maker = u32::try_from(maker).unwrap_or(NO_MAKER);
    Ok(Apply::Done(Done { by, fence, top, since, maker, meta }, until))
}

/// The largest number of a token.
const MAX_NUMBER: u64 = u64::MAX >> 1;

/// The latest date that every server can keep: beyond the year 280000.
const MAX_UNIX_MS: u64 = 1 << 53;

fn parse_mode(word: &[u8]) -> Result<Mode, Refusal<'_>> {
    match word {
        b"x" => Ok(Mode::Exclusive),
        b"s" => Ok(Mode::Shared),
        _ => {
            let n = read::number("mode", word, 1, MAX_LIMIT)?;
            Ok(Mode::Limit(u16::try_from(n).unwrap_or(u16::MAX)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::{Instant, Lease};

    #[test]
    fn every_grant_travels() {
        for mode in [Mode::Exclusive, Mode::Shared, Mode::Limit(1), Mode::Limit(65_535)] {
            for ephemeral in [false, true] {
                let token = b" a token\0 with spaces ";
                let (ttl, fence) = (Millis(30), Fence(7));
                let lease = Lease::begin(Instant(5), ttl);
                let grant =
                    Grant { token, fence, lease, client: ClientId(3), ephemeral, meta: b"m" };
                let mut written = Vec::new();
                write_grant(mode, &grant, &mut written);
                let expected = Granted { token, ttl, fence, mode, ephemeral, meta: b"m" };
                assert_eq!(parse(&[&written, b"m"]), Ok(Apply::Grant(expected)));
            }
        }
        let mut written = Vec::new();
        write_end(b"- t", &mut written);
        assert_eq!(parse(&[&written]), Ok(Apply::End(b"- t")));
    }

    #[test]
    fn removals_travel() {
        let mut written = Vec::new();
        write_removal(&mut written);
        assert_eq!(parse(&[&written]), Ok(Apply::Remove));
    }

    #[test]
    fn floors_travel() {
        for fence in [0, 1, MAX_FENCE] {
            let mut written = Vec::new();
            write_floor(Fence(fence), &mut written);
            assert_eq!(parse(&[&written]), Ok(Apply::Floor(Fence(fence))));
        }
        let (key, mut written) = (KeyAhead::of(b"job:42"), Vec::new());
        write_ahead(&key, Fence(7), &mut written);
        assert_eq!(parse(&[&written]), Ok(Apply::Ahead(key.hash, key.slot, Fence(7))));
        for effect in [
            &b"^"[..],
            b"^-1",
            b"^9007199254740992",
            b"^1 x",
            b"^1 00",
            b"^1 00 x",
            b"^1 00 4096",
            b"^1 00 7 7",
        ] {
            assert!(parse(&[effect]).is_err(), "{}", effect.escape_ascii());
        }
    }

    #[test]
    fn marks_travel() {
        for fence in [None, Some(Fence(1)), Some(Fence(MAX_FENCE))] {
            let mut written = Vec::new();
            write_mark(fence, &mut written);
            let read = mark(&written).map(super::super::fenced::effect);
            assert_eq!(read, Some(Ok(fence)));
            assert!(parse(&[&written]).is_err(), "it is none of a lock's");
        }
        assert_eq!(mark(b"!"), None);
    }

    #[test]
    fn promises_travel() {
        for quarantine in [0, 5].map(Millis) {
            let promise = Promise { fence: Fence(7), unix: 9, bound: Millis(20), quarantine };
            let mut written = Vec::new();
            write_promise(&promise, &mut written);
            assert_eq!(parse(&[&written]), Ok(Apply::Promise(promise)));
        }
        for effect in [&b"&"[..], b"&1", b"&1 2", b"&1 2 3", b"&1 2 3 x", b"&1 2 3 4 5"] {
            assert!(parse(&[effect]).is_err(), "{}", effect.escape_ascii());
        }
    }

    #[test]
    fn a_malformed_effect_is_refused() {
        assert!(matches!(parse(&[b"+10 7 x t"]), Ok(Apply::Grant(_))));
        let bad: [&[u8]; 14] = [
            b"",
            b"t",
            b"-",
            b"+",
            b"+10",
            b"+10 7",
            b"+10 7 x",
            b"+10 7 x ",
            b"+10 7 y t",
            b"+10 7 e t",
            b"+0 7 x t",
            b"!t",
            b"@",
            b"@-1",
        ];
        for effect in bad {
            assert!(parse(&[effect]).is_err(), "{}", effect.escape_ascii());
        }
        assert_eq!(parse(&[b"+10 7 x t", b"", b""]), Err(Refusal::Arity));
        assert_eq!(parse(&[]), Err(Refusal::Arity));
    }
}
