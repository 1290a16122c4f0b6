//! `DLOCK.HOT [n]`

use super::{Arg, Doc, Kind, Refusal, read};
use crate::limits::{DEFAULT_HOT_LISTED, HOT_KEYS};

/// The command's documentation. Not in the category `read`: it shows names of keys that its user may not be
/// allowed to read.
pub const DOC: Doc = Doc {
    name: "DLOCK.HOT",
    summary: "Lists the most contended keys of the last minutes",
    complexity: "O(1): at most 128 keys are counted",
    arity: -1,
    flags: "readonly",
    acl: "admin slow dangerous",
    key: None,
    args: &[Arg { name: "n", word: None, kind: Kind::Number, optional: true }],
};

/// Reads the number of keys wanted.
///
/// # Errors
/// Fails if it is not a number within the documented bounds.
pub fn parse<'a>(args: &[&'a [u8]]) -> Result<usize, Refusal<'a>> {
    let mut args = read::Args::new(args);
    let n = args.take().map(|given| read::number("n", given, 1, HOT_KEYS as u64)).transpose()?;
    args.end()?;
    Ok(n.unwrap_or(DEFAULT_HOT_LISTED) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_are_listed_if_nothing_is_said_and_never_more_than_are_known() {
        assert_eq!(parse(&[]), Ok(10));
        assert_eq!(parse(&[b"128"]), Ok(128));
        for given in [&b"0"[..], b"129", b"-1", b"all"] {
            let refused = Refusal::Number { what: "n", least: 1, most: 128, given };
            assert_eq!(parse(&[given]), Err(refused));
        }
        assert_eq!(parse(&[b"1", b"2"]), Err(Refusal::Arity));
    }
}
