//! `DLOCK.PROMISE fence bound-ms clock quarantine-ms`: sends replicas their primary's promise in its state
//! file, and the time for which the primary grants nothing because it may have forgotten leases.
//!
//! Replication may lag. A promoted replica starts above the fence, and waits for the lease bound, even if the
//! last grants never arrived.

use super::read::{self, Args};
use super::{Arg, Doc, Kind, Refusal};
use crate::durability::promise::Promise;
use crate::limits::{MAX_BOUND, MAX_FENCE};
use crate::words::{Fence, Millis};

/// The command's documentation.
pub const DOC: Doc = Doc {
    name: "DLOCK.PROMISE",
    summary: "Internal: tells replicas the fences and leases that the primary's state file covers",
    complexity: "O(1)",
    arity: 5,
    flags: "write admin",
    acl: "write admin dangerous",
    key: None,
    args: &[
        Arg::plain("fence", Kind::Number),
        Arg::plain("bound-ms", Kind::Number),
        Arg::plain("clock", Kind::Number),
        Arg::plain("quarantine-ms", Kind::Number),
    ],
};

/// Reads the arguments.
///
/// # Errors
/// Fails unless they are as documented.
pub fn parse<'a>(args: &[&'a [u8]]) -> Result<Promise, Refusal<'a>> {
    let mut args = Args::new(args);
    let fence = Fence(read::number("fence", args.need()?, 0, MAX_FENCE)?);
    let bound = Millis(read::number("bound-ms", args.need()?, 0, MAX_BOUND)?);
    let unix = read::number("clock", args.need()?, 0, MAX_FENCE)?;
    let quarantine = Millis(read::number("quarantine-ms", args.need()?, 0, MAX_BOUND)?);
    args.end()?;
    Ok(Promise { fence, unix, bound, quarantine })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_no_server_writes_are_refused() {
        let (fence, bound, unix, quarantine) = (Fence(1), Millis(20), 3, Millis(4));
        let promise = Promise { fence, bound, unix, quarantine };
        assert_eq!(parse(&[b"1", b"20", b"3", b"4"]), Ok(promise));
        for wrong in ["", "x", "-1", "8589934593"] {
            assert!(parse(&[b"1", b"20", b"3", wrong.as_bytes()]).is_err(), "{wrong}");
            assert!(parse(&[b"1", wrong.as_bytes(), b"3", b"4"]).is_err(), "{wrong}");
        }
    }
}
