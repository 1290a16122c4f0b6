//! Checks of the limits that clients can reach. A request beyond a limit is refused with the limit's code, and
//! the server counts each code in `INFO errorstats`.

use dlock_core::reason::{TOO_FAR, TOO_MANY};

use super::facts::NodeAnswers;
use super::finding::{Finding, Severity};

/// The codes of all limits.
pub fn codes() -> impl Iterator<Item = &'static str> {
    LIMITS.iter().map(|limit| limit.code)
}

/// A count of `INFO errorstats`.
pub fn count(stat: &str) -> Option<u64> {
    stat.strip_prefix("count=")?.parse().ok()
}

/// All findings about one node.
pub fn findings(node: &NodeAnswers) -> impl Iterator<Item = Finding> + '_ {
    LIMITS.iter().filter_map(|limit| {
        let Limit { severity, check, code, why, fix } = *limit;
        let refused = node.info(&format!("errorstat_{code}")).and_then(count);
        let refused = refused.filter(|refused| *refused > 0)?;
        let were = if refused == 1 { "request was" } else { "requests were" };
        let found =
            format!("{refused} {were} refused with {code} since its start or CONFIG RESETSTAT");
        Some(Finding::new(severity, check, found).why(why).fix(fix))
    })
}

/// A limit, and the count of its refusals.
struct Limit {
    severity: Severity,
    check: &'static str,
    code: &'static str,
    why: &'static str,
    fix: &'static str,
}

const LIMITS: [Limit; 2] = [
    Limit {
        severity: Severity::Warning,
        check: "limits",
        code: TOO_MANY,
        why: "a client asked for more than one user may have; its error names what: waiters, locks, holders or done locks",
        fix: "look at the errors of the clients; `dlock ls --contended` shows waiters, and `dlock ls` the locks. For locks, raise maxmemory or dlock.max-memory-percent if all of them are needed; services that need many waiters are better given users of their own",
    },
    Limit {
        severity: Severity::Hint,
        check: "keys_ahead",
        code: TOO_FAR,
        why: "a fence is refused with TOOFAR if it is more than ten minutes ahead of the node's clock, or if its user has too many that are ahead at all",
        fix: "look at the clocks of the clients, of this machine and of the other nodes; and for a user that proposes fences far ahead at very many keys",
    },
];
