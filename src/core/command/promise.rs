//! `DLOCK.PROMISE fence bound-ms clock [long]`: what a primary has promised in its state file, for its
//! replicas. If some keys may have longer leases, `long` names them: `HASH MS HASH MS …`.
//!
//! Replication may lag. A replica that becomes a primary starts above the fence, and waits for as
//! long as the bounds say, even if the last grants never arrived.

use alloc::string::String;

use super::read::{self, Args};
use super::{Arg, Doc, Kind, Refusal};
use crate::bounds::Bounds;
use crate::limits::{MAX_BOUND, MAX_FENCE};
use crate::promise::Promise;
use crate::words::{Fence, Millis};

/// How the command is documented.
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
        Arg { optional: true, ..Arg::plain("long", Kind::Text) },
    ],
};

/// Reads the arguments.
///
/// # Errors
/// Unless they are as documented.
pub fn parse<'a>(args: &[&'a [u8]]) -> Result<Promise, Refusal<'a>> {
    let mut args = Args::new(args);
    let fence = read::number("fence", args.need()?, 0, MAX_FENCE)?;
    let usual = read::number("bound-ms", args.need()?, 0, MAX_BOUND)?;
    let unix = read::number("clock", args.need()?, 0, MAX_FENCE)?;
    let mut bounds = Bounds::usual_of(Millis(usual));
    if let Some(long) = args.take() {
        read_long(long, &mut bounds).ok_or(Refusal::Malformed(DOC.name))?;
    }
    args.end()?;
    Ok(Promise { fence: Fence(fence), unix, bounds })
}

/// Writes what follows the numbers. Empty: there is nothing more to say.
#[must_use]
pub fn write_long(bounds: &Bounds) -> String {
    let mut text = bounds.write_long("", " ");
    text.pop();
    text
}

fn read_long(long: &[u8], bounds: &mut Bounds) -> Option<()> {
    let mut words = core::str::from_utf8(long).ok()?.split(' ');
    while let Some(hash) = words.next() {
        bounds.read_long(hash, words.next()?)?;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bounds::KeyHash;

    fn read<'a>(long: &'a str) -> Result<Promise, Refusal<'a>> {
        parse(&[b"1", b"20", b"3", long.as_bytes()])
    }

    #[test]
    fn what_is_written_is_read() {
        let mut bounds = Bounds::usual_of(Millis(20));
        assert_eq!(
            (write_long(&bounds), parse(&[b"1", b"20", b"3"]).unwrap().bounds),
            ("".into(), bounds.clone())
        );
        for name in ["a", "b", "c"] {
            bounds.raise(KeyHash::of(name.as_bytes()), Millis(30));
            assert_eq!(read(&write_long(&bounds)).unwrap().bounds, bounds);
        }
    }

    #[test]
    fn what_was_never_written_is_refused() {
        for long in ["", " ", "a", "a 20", "a 30 ", "a 30 b", "g 30", "a 30  b 30", "a 9999999999"]
        {
            assert!(read(long).is_err(), "{long:?}");
        }
    }
}
