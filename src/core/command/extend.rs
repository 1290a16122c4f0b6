//! `DLOCK.EXTEND key token ttl-ms [FENCE f]`

use super::options::Options;
use super::read::{self, Args};
use super::{Arg, Doc, Kind, Refusal, Touch};
use crate::limits::MAX_FENCE;
use crate::words::{Fence, Millis};

/// The command's documentation.
pub const DOC: Doc = Doc {
    name: "DLOCK.EXTEND",
    summary: "Extends a lease to ttl-ms from now, and never shortens it; replies 1, or 0 if the token does not hold the lock",
    complexity: "O(1); O(log(N)) where N is the number of holders",
    arity: -4,
    flags: "write fast",
    acl: "write fast",
    key: Some(Touch::Changes),
    args: &[Arg::KEY, Arg::TOKEN, Arg::TTL, Arg::option("FENCE", "fence", Kind::Number)],
};

/// The documentation of the same command at an agent.
pub const AT_AGENT: Doc = Doc { args: &[Arg::KEY, Arg::TOKEN, Arg::TTL], ..DOC };

/// A parsed request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extend<'a> {
    /// The holder's token.
    pub token: &'a [u8],
    /// The new lease. It never shortens the present one, so a late request does no harm.
    pub ttl: Millis,
    /// The new fence; the request fails if the holder's fence is greater.
    pub fence: Option<Fence>,
}

/// Reads the arguments after the key.
///
/// # Errors
/// Fails if an argument is not as documented.
pub fn parse<'a>(args: &[&'a [u8]]) -> Result<Extend<'a>, Refusal<'a>> {
    let mut args = Args::new(args);
    let token = read::token(args.need()?)?;
    let ttl = read::ttl(args.need()?)?;
    let mut asked = Extend { token, ttl, fence: None };
    for option in Options::of(&DOC, args) {
        let option = option?;
        match option.word {
            "FENCE" => asked.fence = Some(Fence(option.number(1, MAX_FENCE)?)),
            _ => return Err(option.unread(&DOC)),
        }
    }
    Ok(asked)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn numbers_have_bounds() {
        for (words, of) in [
            ("t 1 FENCE 1", None),
            ("t 4294967295 FENCE 9007199254740991", None),
            ("t 0", Some("ttl-ms")),
            ("t 4294967296", Some("ttl-ms")),
            ("t 1 FENCE 0", Some("FENCE")),
            ("t 1 FENCE 9007199254740992", Some("FENCE")),
        ] {
            let args: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
            let refused = match parse(&args) {
                Err(Refusal::Number { what, .. }) => Some(what),
                other => other.map(|_| None).unwrap(),
            };
            assert_eq!(refused, of, "{words}");
        }
    }
}
