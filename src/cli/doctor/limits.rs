//! Checks of the limits that clients can reach. One that goes too far is refused with the limit's code, and
//! the server counts each code in `INFO errorstats`.

use dlock_core::limits::{MAX_DONE, MAX_KEYS_AHEAD, MAX_WAITERS};
use dlock_core::reason::{TOO_FAR, TOO_MANY};

use super::facts::Answers;
use super::finding::{Finding, Severity};

/// A limit: its refusals are counted, or the present number is known.
struct Limit {
    check: &'static str,
    code: Option<&'static str>,
    /// The severity of refusals while the present number is far from the limit.
    past: Severity,
    /// The present number for all users together, and the most that one user alone can have.
    used: fn(&Answers) -> Option<(i64, i64)>,
    /// The things that are counted.
    what: &'static str,
    why: &'static str,
    fix: &'static str,
}

/// The codes of all limits.
pub fn codes() -> impl Iterator<Item = &'static str> {
    LIMITS.iter().filter_map(|limit| limit.code)
}

/// A count of `INFO errorstats`.
pub fn count(stat: &str) -> Option<u64> {
    stat.strip_prefix("count=")?.parse().ok()
}

/// All findings about one node.
pub fn findings(node: &Answers) -> impl Iterator<Item = Finding> + '_ {
    LIMITS.iter().filter_map(|limit| finding(limit, node)).chain(uncounted(node))
}

/// A server that has seen very many codes counts no new ones, or none at all.
fn uncounted(node: &Answers) -> Option<Finding> {
    let marks = ["errorstat_ERRORSTATS_DISABLED", "errorstat_ERRORSTATS_OVERFLOW"];
    marks.iter().find_map(|mark| node.info(mark)).map(|_| {
        Finding::hint("skipped", "it does not count all errors: it has seen more than 128 different codes")
            .why("requests that a limit refused may be missing in INFO errorstats, and in this report")
            .fix("CONFIG RESETSTAT; and let errors of scripts begin with a code that stays the same, such as ERR")
    })
}

fn finding(limit: &Limit, node: &Answers) -> Option<Finding> {
    let Limit { check, code, past, used, what, why, fix } = *limit;
    let code = code.unwrap_or_default();
    let refused = node.info(&format!("errorstat_{code}")).and_then(count).unwrap_or(0);
    let used = used(node);
    let is_near = used.is_some_and(|(used, alone)| used > 0 && used * 10 >= alone * 8);
    let severity = match (refused > 0, is_near) {
        (true, true) => Severity::Warning,
        (true, false) => past,
        (false, true) => Severity::Hint,
        (false, false) => return None,
    };
    let refused = (refused > 0).then(|| {
        let were = if refused == 1 { "request was" } else { "requests were" };
        format!("{refused} {were} refused with {code} since its start or CONFIG RESETSTAT")
    });
    let used = used
        .filter(|_| is_near)
        .map(|(used, alone)| format!("{what}: {used}, and one user alone can have {alone}"));
    let found: Vec<String> = refused.into_iter().chain(used).collect();
    Some(Finding::new(severity, check, found.join("; ")).why(why).fix(fix))
}

const LIMITS: [Limit; 4] = [
    Limit {
        check: "limits",
        code: Some(TOO_MANY),
        past: Severity::Warning,
        used: |_| None,
        what: "",
        why: "the client that asked for more than one user may have was refused; the error says of what: waiters, locks, holders or done locks",
        fix: "look at the errors of the clients; `dlock ls --contended` shows waiters, and `dlock ls` the locks. For locks, raise maxmemory or dlock.max-memory-percent if all of them are needed",
    },
    Limit {
        check: "waiters",
        code: None,
        past: Severity::Hint,
        used: |node| Some((node.node_number("waiters")?, MAX_WAITERS as i64)),
        what: "waiting requests",
        why: "a user who has as many waiting requests as one may is refused with TOOMANY waiters; others are not",
        fix: "see with `dlock ls --contended` what they wait for; services that need so many are better given users of their own",
    },
    Limit {
        check: "keys_ahead",
        code: Some(TOO_FAR),
        past: Severity::Hint,
        used: |node| Some((node.info_number("dlock_keys_ahead")?, MAX_KEYS_AHEAD as i64 / 2)),
        what: "keys with fences ahead of its clock",
        why: "a fence is refused with TOOFAR if it is more than ten minutes ahead of its clock, or if its user has too many that are ahead at all",
        fix: "look at the clocks of the clients, of this machine and of the other nodes; and for a user who proposes fences far ahead at very many keys",
    },
    Limit {
        check: "done_keys",
        code: None,
        past: Severity::Hint,
        used: |node| Some((node.info_number("dlock_done_keys")?, MAX_DONE as i64)),
        what: "done locks",
        why: "a user who has left as many locks done as one may is refused with TOOMANY done locks, and the jobs can run again",
        fix: "leave locks done for a shorter time, or give services users of their own",
    },
];
