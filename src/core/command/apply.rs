//! `DLOCK.APPLY GRANT key token ttl-ms fence mode ephemeral meta` and
//! `DLOCK.APPLY END key token`: what replicas and the AOF get.
//!
//! An effect says what was decided, never what was asked, and gives the lease's length, never a
//! date. The server writes it, and nobody else.

use alloc::string::{String, ToString};

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
    arity: -4,
    flags: "write admin",
    acl: "write admin dangerous",
    key: Some(Touch::Makes),
    args: &[Arg::plain("effect", Kind::Text), Arg::KEY, Arg::TOKEN],
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

/// Reads the effect and the arguments after the key.
///
/// # Errors
/// When it is not as the server writes it.
pub fn parse<'a>(effect: &'a [u8], args: &[&'a [u8]]) -> Result<Apply<'a>, Refusal<'a>> {
    let mut args = Args::new(args);
    let token = read::token(args.need()?)?;
    let apply = match effect {
        b"END" => Apply::End(token),
        b"GRANT" => Apply::Grant(Granted {
            token,
            ttl: Millis(read::number("ttl-ms", args.need()?, 1, MAX_TTL_CEILING)?),
            fence: Fence(read::number("fence", args.need()?, 1, MAX_FENCE)?),
            mode: parse_mode(args.need()?)?,
            ephemeral: args.need()? == b"1",
            meta: read::meta(args.need()?)?,
        }),
        _ => return Err(Refusal::Malformed),
    };
    args.end()?;
    Ok(apply)
}

/// How a mode is written: `x`, `s`, or the number of permits.
#[must_use]
pub fn mode_word(mode: Mode) -> String {
    match mode {
        Mode::Exclusive => "x".into(),
        Mode::Shared => "s".into(),
        Mode::Limit(n) => n.to_string(),
    }
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

    #[test]
    fn every_mode_travels() {
        for mode in [Mode::Exclusive, Mode::Shared, Mode::Limit(1), Mode::Limit(65_535)] {
            assert_eq!(parse_mode(mode_word(mode).as_bytes()), Ok(mode));
        }
        assert!(parse_mode(b"y").is_err());
    }

    #[test]
    fn a_malformed_effect_is_refused() {
        let good: [&[u8]; 6] = [b"t", b"10", b"7", b"x", b"0", b""];
        assert!(matches!(parse(b"GRANT", &good), Ok(Apply::Grant(_))));
        assert_eq!(parse(b"END", &good[..1]), Ok(Apply::End(b"t")));
        assert_eq!(parse(b"grant", &good), Err(Refusal::Malformed));
        assert_eq!(parse(b"GRANT", &good[..5]), Err(Refusal::Arity));
        assert_eq!(parse(b"END", &good), Err(Refusal::Arity));
    }
}
