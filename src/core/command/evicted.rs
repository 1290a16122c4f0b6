//! `DLOCK.EVICTED [AFTER key] [COUNT n]`

use super::options::Options;
use super::read::Args;
use super::{Arg, Doc, Kind, Refusal};
use crate::limits::{DEFAULT_EVICTED_LISTED, MAX_EVICTED_LISTED};

/// The command's documentation. Its categories are those of SCAN, which lists the other locks.
pub const DOC: Doc = Doc {
    name: "DLOCK.EVICTED",
    summary: "Lists locks whose keys were evicted, so that SCAN does not; they are held all the same",
    complexity: "O(N) where N is the number of keys listed",
    arity: -1,
    flags: "readonly",
    acl: "read slow",
    key: None,
    args: &[Arg::option("AFTER", "last", Kind::Text), Arg::option("COUNT", "n", Kind::Number)],
};

/// A parsed request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page<'a> {
    /// The last key of the page before: only keys after it, byte by byte, are listed.
    pub after: Option<&'a [u8]>,
    /// The largest number of keys.
    pub count: usize,
}

/// Reads the arguments.
///
/// # Errors
/// Fails if an argument is not as documented.
pub fn parse<'a>(args: &[&'a [u8]]) -> Result<Page<'a>, Refusal<'a>> {
    let mut page = Page { after: None, count: DEFAULT_EVICTED_LISTED as usize };
    for option in Options::of(&DOC, Args::new(args)) {
        let option = option?;
        match option.word {
            "AFTER" => page.after = Some(option.value),
            "COUNT" => page.count = option.number(1, MAX_EVICTED_LISTED)? as usize,
            _ => return Err(option.unread(&DOC)),
        }
    }
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_begins_after_a_key_and_has_a_bounded_length() {
        let page = |args: &[&'static [u8]]| parse(args);
        assert_eq!(page(&[]), Ok(Page { after: None, count: 100 }));
        let whole = page(&[b"after", b"COUNT", b"count", b"1000"]);
        assert_eq!(whole, Ok(Page { after: Some(b"COUNT"), count: 1000 }));
        assert!(matches!(page(&[b"COUNT", b"1001"]), Err(Refusal::Number { most: 1000, .. })));
        assert!(matches!(page(&[b"COUNT", b"0"]), Err(Refusal::Number { least: 1, .. })));
        assert_eq!(page(&[b"COUNT"]), Err(Refusal::Unfinished("COUNT")));
        let twice: [&[u8]; 4] = [b"AFTER", b"a", b"AFTER", b"b"];
        assert_eq!(page(&twice), Err(Refusal::Repeated("AFTER")));
        assert!(matches!(page(&[b"0"]), Err(Refusal::Unknown { given: b"0", .. })));
    }
}
