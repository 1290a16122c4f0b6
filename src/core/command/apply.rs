//! `DLOCK.APPLY key token [grant [meta]]`: what replicas and the AOF get.
//!
//! With a grant: the token holds. Without: it holds no more. An effect says what was decided,
//! never what was asked, and gives the lease's length, never a date. It has as few arguments as
//! it can, for every one of them costs the server at each grant: the grant is one, with its
//! numbers in it: `ttl-ms fence mode`, and an `e` behind them if it is ephemeral.

use alloc::string::String;
use core::fmt::Write;

use super::read::{self, Args};
use super::{Arg, Doc, Kind, Refusal, Touch};
use crate::limits::{MAX_FENCE, MAX_LIMIT, MAX_TTL_CEILING};
use crate::lock::Grant;
use crate::words::{ClientId, Fence, Lease, Millis, Mode};

/// How the command is documented.
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
        Arg::TOKEN,
        Arg { optional: true, ..Arg::plain("grant", Kind::Text) },
        Arg { optional: true, ..Arg::plain("meta", Kind::Text) },
    ],
};

/// An effect to carry out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Apply<'a> {
    /// The token holds.
    Grant(Granted<'a>),
    /// The token holds no more.
    End(&'a [u8]),
}

/// A grant, as it travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Granted<'a> {
    /// The token.
    pub token: &'a [u8],
    /// The lease, which starts at full length where it arrives.
    pub ttl: Millis,
    /// The fence.
    pub fence: Fence,
    /// How it holds.
    pub mode: Mode,
    /// Whether it ends with a connection: shown, and without force where it arrives.
    pub ephemeral: bool,
    /// Text for an operator.
    pub meta: &'a [u8],
}

impl<'a> Granted<'a> {
    /// The grant as it holds where it arrives.
    #[must_use]
    pub fn grant(&self, lease: Lease) -> Grant<'a> {
        let Granted { token, fence, ephemeral, meta, .. } = *self;
        Grant { token, fence, lease, client: ClientId::UNKNOWN, ephemeral, meta }
    }
}

/// Reads the arguments after the key.
///
/// # Errors
/// When they are not as the server writes them.
pub fn parse<'a>(args: &[&'a [u8]]) -> Result<Apply<'a>, Refusal<'a>> {
    let mut args = Args::new(args);
    let token = read::token(args.need()?)?;
    let Some(grant) = args.take() else { return Ok(Apply::End(token)) };
    let meta = read::meta(args.take().unwrap_or_default())?;
    args.end()?;
    let mut words = grant.split(|byte| *byte == b' ');
    let mut word = || words.next().ok_or(Refusal::Malformed);
    let ttl = Millis(read::number("ttl-ms", word()?, 1, MAX_TTL_CEILING)?);
    let fence = Fence(read::number("fence", word()?, 1, MAX_FENCE)?);
    let mode = parse_mode(word()?)?;
    let ephemeral = match words.next() {
        None => false,
        Some(b"e") => true,
        Some(_) => return Err(Refusal::Malformed),
    };
    if words.next().is_some() {
        return Err(Refusal::Malformed);
    }
    Ok(Apply::Grant(Granted { token, ttl, fence, mode, ephemeral, meta }))
}

/// Writes a grant as [`parse`] reads it.
pub fn write_grant(mode: Mode, grant: &Grant<'_>, out: &mut String) {
    let (ttl, fence) = (grant.lease.ttl.0, grant.fence.0);
    let ephemeral = if grant.ephemeral { " e" } else { "" };
    // Writing to a string cannot fail.
    let _ = match mode {
        Mode::Exclusive => write!(out, "{ttl} {fence} x{ephemeral}"),
        Mode::Shared => write!(out, "{ttl} {fence} s{ephemeral}"),
        Mode::Limit(n) => write!(out, "{ttl} {fence} {n}{ephemeral}"),
    };
}

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
                let grant = Grant {
                    token: b"t",
                    fence: Fence(7),
                    lease: Lease::begin(Instant(5), Millis(30)),
                    client: ClientId(3),
                    ephemeral,
                    meta: b"m",
                };
                let mut written = String::new();
                write_grant(mode, &grant, &mut written);
                let (ttl, fence) = (Millis(30), Fence(7));
                let expected = Granted { token: b"t", ttl, fence, mode, ephemeral, meta: b"m" };
                let read = parse(&[b"t", written.as_bytes(), b"m"]);
                assert_eq!(read, Ok(Apply::Grant(expected)));
            }
        }
    }

    #[test]
    fn a_malformed_effect_is_refused() {
        assert_eq!(parse(&[b"t"]), Ok(Apply::End(b"t")));
        assert!(matches!(parse(&[b"t", b"10 7 x"]), Ok(Apply::Grant(_))));
        for grant in
            [&b""[..], b"10", b"10 7", b"10 7 y", b"10 7 x ", b"10 7 x f", b"10 7 x e e", b"0 7 x"]
        {
            assert!(parse(&[b"t", grant]).is_err(), "{}", grant.escape_ascii());
        }
        assert_eq!(parse(&[b"t", b"10 7 x", b"", b""]), Err(Refusal::Arity));
        assert_eq!(parse(&[]), Err(Refusal::Arity));
    }
}
