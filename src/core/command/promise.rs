//! `DLOCK.PROMISE fence bound-ms clock [more]`: tells replicas what their primary has promised in its state
//! file. `more` has names and values, `NAME VALUE NAME VALUE …`:
//!
//! ```text
//! HASH MS               a key that may have longer leases
//! quarantine MS         the primary grants nothing new for this long: it may have forgotten leases
//! quarantine:HASH MS    the same for a key that may have had longer leases
//! ```
//!
//! A reader ignores any other name: a later version has written it.
//!
//! Replication may lag. A replica that becomes a primary starts above the fence, and waits as
//! long as the lease bound says, even if the last grants never arrived.

use alloc::string::String;
use core::fmt::Write;

use super::read::{self, Args};
use super::{Arg, Doc, Kind, Refusal};
use crate::durability::lease_bound::{KeyHash, LeaseBound};
use crate::durability::promise::Promise;
use crate::limits::{MAX_BOUND, MAX_FENCE};
use crate::words::{Fence, Millis};

/// The command's documentation.
pub const DOC: Doc = Doc {
    name: "DLOCK.PROMISE",
    summary: "Internal: tells replicas what their primary has promised in its state file",
    complexity: "O(1)",
    arity: -4,
    flags: "write admin",
    acl: "write admin dangerous",
    key: None,
    args: &[
        Arg::plain("fence", Kind::Number),
        Arg::plain("bound-ms", Kind::Number),
        Arg::plain("clock", Kind::Number),
        Arg { optional: true, ..Arg::plain("more", Kind::Text) },
    ],
};

/// Reads the arguments.
///
/// # Errors
/// Fails unless they are as documented.
pub fn parse<'a>(args: &[&'a [u8]]) -> Result<Promise, Refusal<'a>> {
    let mut args = Args::new(args);
    let fence = read::number("fence", args.need()?, 0, MAX_FENCE)?;
    let usual = read::number("bound-ms", args.need()?, 0, MAX_BOUND)?;
    let unix = read::number("clock", args.need()?, 0, MAX_FENCE)?;
    let (fence, bound) = (Fence(fence), LeaseBound::usual_of(Millis(usual)));
    let mut promise = Promise { fence, unix, bound, ..Promise::default() };
    if let Some(more) = args.take() {
        read_more(more, &mut promise).ok_or(Refusal::Malformed(DOC.name))?;
    }
    args.end()?;
    Ok(promise)
}

/// Writes the names and values after the numbers; empty if there are none.
#[must_use]
pub fn write_more(Promise { bound, quarantine, .. }: &Promise) -> String {
    let mut text = bound.write_long("", " ");
    if quarantine.longest().0 > 0 {
        // Writing to a string does not fail.
        let _ = write!(text, "{QUARANTINE} {} ", quarantine.usual().0);
        text.push_str(&quarantine.write_long(QUARANTINE_OF, " "));
    }
    text.pop();
    text
}

fn read_more(more: &[u8], promise: &mut Promise) -> Option<()> {
    let mut words = core::str::from_utf8(more).ok()?.split(' ');
    while let Some(name) = words.next() {
        let value = words.next().filter(|value| !value.is_empty())?;
        if name.len() == KeyHash::DIGITS {
            promise.bound.read_long(name, value)?;
        } else if name == QUARANTINE {
            let ms = value.parse().ok().filter(|ms| *ms <= MAX_BOUND)?;
            promise.quarantine.raise_usual(Millis(ms));
        } else if let Some(hash) = name.strip_prefix(QUARANTINE_OF) {
            promise.quarantine.read_long(hash, value)?;
        } else if name.is_empty() {
            return None;
        }
    }
    Some(())
}

const QUARANTINE: &str = "quarantine";
const QUARANTINE_OF: &str = "quarantine:";

#[cfg(test)]
mod tests {
    use alloc::format;

    use super::*;

    fn read<'a>(more: &'a str) -> Result<Promise, Refusal<'a>> {
        parse(&[b"1", b"20", b"3", more.as_bytes()])
    }

    #[test]
    fn what_is_written_is_read() {
        let plain = parse(&[b"1", b"20", b"3"]).unwrap();
        assert_eq!((plain.bound.clone(), write_more(&plain)), (of_all(20), "".into()));
        for quarantine in [of_all(0), of_all(7), with_keys(0, &["a"]), with_keys(7, &["a", "d"])] {
            for keys in [&[][..], &["a"], &["a", "b", "c"]] {
                let bound = with_keys(20, keys);
                let promise = Promise { bound, quarantine: quarantine.clone(), ..plain.clone() };
                let written = write_more(&promise);
                let read = if written.is_empty() { Ok(plain.clone()) } else { read(&written) };
                assert_eq!(read.ok(), Some(promise), "{written}");
            }
        }
    }

    fn of_all(usual: u64) -> LeaseBound {
        LeaseBound::usual_of(Millis(usual))
    }

    fn with_keys(usual: u64, keys: &[&str]) -> LeaseBound {
        let mut bound = of_all(usual);
        keys.iter().for_each(|key| bound.raise(KeyHash::of(key.as_bytes()), Millis(30)));
        bound
    }

    #[test]
    fn what_a_later_version_says_is_passed_over() {
        let plain = parse(&[b"1", b"20", b"3"]).unwrap();
        let read = read("later 5 quarantine 7 later:still x");
        assert_eq!(read.ok(), Some(Promise { quarantine: of_all(7), ..plain }));
    }

    #[test]
    fn what_was_never_written_is_refused() {
        let hash = &with_keys(20, &["a"]).write_long("", " ")[..KeyHash::DIGITS];
        let other = hash.replace(|digit| digit != '0', "g");
        let key = |ms: &str| format!("{hash} {ms}");
        let wrong = [format!("{other} 30"), key("20"), key("30 "), key("30 b"), key("9999999999")];
        for more in wrong.iter().map(String::as_str).chain(["", " ", "a", "a 30  b 30"]) {
            assert!(read(more).is_err(), "{more:?}");
        }
        for quarantine in ["x", "-1", "8589934593", "5 quarantine:a", "5 quarantine:a 5"] {
            assert!(read(&format!("quarantine {quarantine}")).is_err(), "{quarantine}");
        }
    }
}
