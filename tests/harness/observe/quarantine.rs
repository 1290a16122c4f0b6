//! Quarantine as clients see it: its reason and its length.

use std::time::Instant;

use crate::server::Server;
use crate::value::Value;
use crate::wait::eventually;

/// After a crash.
pub const CRASHED: &str =
    "the server was not shut down cleanly, so earlier leases may still be held";
/// After a clean shutdown, with leases that did not come back.
pub const FORGOTTEN: &str =
    "the leases that came back are not those that were held at the shutdown";
/// A replica has become a primary.
pub const PROMOTED: &str =
    "this server was promoted, and may not have received all leases of its primary";
/// A replica has become a primary before it had received a promise.
pub const UNTOLD: &str = "this server was promoted before its primary told it how long leases run, so they \
                          may run as long as dlock.max-ttl allows";
/// DEBUG RELOAD, for example.
pub const RELOADED: &str = "a data set was loaded over the live one";
/// A first start with another node's data.
pub const FOUND: &str = "leases came with the data set, and there was no state file";
/// A first start, where the operator wants a quarantine after it.
pub const NO_FILE: &str =
    "this node started without a state file: it is new, or has lost its disk and leases";

/// The parts of an answer `QUARANTINE N ms until grants resume: <reason>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The reason why the node grants nothing.
    pub reason: String,
    /// The remaining milliseconds.
    pub left: i64,
}

impl Refusal {
    /// Reads an answer, which must be such an error.
    #[track_caller]
    pub fn read(answer: &Value) -> Refusal {
        let read = || {
            let words = answer.error().strip_prefix("QUARANTINE ")?;
            let (left, reason) = words.split_once(" ms until grants resume: ")?;
            let left = left.parse().ok()?;
            Some(Refusal { reason: reason.to_owned(), left })
        };
        read().unwrap_or_else(|| panic!("expected a QUARANTINE error, got {answer:?}"))
    }
}

impl Server {
    /// Asserts that it grants nothing new, for this reason, and returns the remaining milliseconds.
    #[track_caller]
    pub fn assert_in_quarantine(&self, reason: &str) -> i64 {
        let node = self.run("DLOCK.NODE");
        assert_eq!(node.at("quarantine-reason").text(), reason, "{node:?}");
        assert_eq!(node.at("granting").text(), "quarantine", "{node:?}");
        let left = node.at("quarantine-ms").int();
        let refusal = Refusal::read(&self.run("DLOCK.ACQUIRE anything anybody 1"));
        assert_eq!(refusal.reason, reason);
        assert!((1..=left).contains(&refusal.left), "{refusal:?}, with {left} ms before");
        left
    }

    /// Asserts that it grants.
    #[track_caller]
    pub fn assert_grants(&self) {
        let node = self.run("DLOCK.NODE");
        assert_eq!(node.at("quarantine-reason").text(), "", "{node:?}");
        assert_eq!(node.at("quarantine-ms").int(), 0, "{node:?}");
        assert_eq!(node.at("granting").text(), "yes", "{node:?}");
        assert!(self.run("DLOCK.ACQUIRE anything anybody 1").int() > 0);
        self.run("DLOCK.RELEASE anything anybody");
    }

    /// Waits until it grants.
    #[track_caller]
    pub fn until_it_grants(&self) {
        eventually("it grants", || self.node("granting").text() == "yes");
    }

    /// Ends a quarantine, as an operator does.
    #[track_caller]
    pub fn leave_quarantine(&self) {
        assert_eq!(self.run("CONFIG SET dlock.quarantine off").text(), "OK");
        self.assert_grants();
    }

    /// The number of lines about quarantine in the server's log.
    pub fn quarantine_lines(&self) -> usize {
        self.log().lines().filter(|line| line.to_lowercase().contains("quarantine")).count()
    }
}

/// Asserts that this much is left of a quarantine that began no earlier than `since`. It lasts as long as
/// leases of `ttl` milliseconds, or an eighth longer.
#[track_caller]
pub fn assert_bound(left: i64, ttl: i64, since: Instant) {
    let passed = since.elapsed().as_millis() as i64 + 1;
    assert!(left + passed >= ttl, "{left} ms left after {passed}, for leases of {ttl} ms");
    assert!(left <= ttl + ttl / 8, "{left} ms left, for leases of {ttl} ms");
}

/// Asserts that a quarantine was not shortened: `left` milliseconds of it were left at `since`, or
/// a moment later, and `next` are left now.
#[track_caller]
pub fn assert_no_shorter(next: i64, left: i64, since: Instant) {
    let passed = since.elapsed().as_millis() as i64 + 1;
    assert!(next + passed >= left, "{next} ms left after {passed} ms, of {left}");
}
