//! Checks of one server's own settings and state, as far as they matter to locks.

use super::check::Check;
use super::facts::NodeAnswers;
use super::finding::Finding;

pub const CHECKS: &[Check] =
    &[refuses, persistence, eviction, lock_memory, replicas_missing, replicas, timeout];

fn refuses(node: &NodeAnswers) -> Option<Finding> {
    let granting = node.node("granting")?;
    let code = granting.bytes().all(|byte| byte.is_ascii_uppercase()).then_some(granting)?;
    Some(
        Finding::error("refuses", format!("it answers writes with {code}"))
            .why("it refuses every lock")
            .fix("look at its memory, disk, replicas or cluster, as the error says; never lower min-replicas-to-write on a server that may be cut off from a new primary"),
    )
}

/// True if the server saves RDB files.
fn saves(node: &NodeAnswers) -> Option<bool> {
    Some(!node.config("save")?.is_empty())
}

/// A completion record is data: unlike a lease, no quarantine makes up for its loss.
fn persistence(node: &NodeAnswers) -> Option<Finding> {
    let (found, why, when) = match (node.config("appendonly")? == "yes", saves(node)?) {
        (true, _) => return None,
        (false, true) => ("it has no append-only log, only RDB files", AFTER_A_CRASH, "a crash"),
        (false, false) => ("it saves nothing", AFTER_A_RESTART, "any restart"),
    };
    Some(match node.info_number("dlock_done_keys").unwrap_or(0) {
        0 => Finding::hint("persistence", found).why(why).fix(APPEND_ONLY),
        done => Finding::warning("persistence", format!("{found}, and locks are done: {done}"))
            .why(format!(
                "after {when} it may have forgotten which jobs were done, and they run again"
            ))
            .fix(format!("CONFIG SET appendfsync always; and {APPEND_ONLY}")),
    })
}

/// A server that starts with `appendonly yes` and without a log begins empty, whatever its RDB file has.
const APPEND_ONLY: &str = "CONFIG SET appendonly yes while it runs; then CONFIG REWRITE, or the same lines in its configuration file. Do not restart it for this: with the line and without a log it would begin empty";

const AFTER_A_CRASH: &str = "after a crash holders lose the locks on it that were not saved";
const AFTER_A_RESTART: &str =
    "after any restart it has forgotten all leases, and grants nothing until they have ended";

fn eviction(node: &NodeAnswers) -> Option<Finding> {
    let policy = node.config("maxmemory-policy")?;
    let why = match policy {
        policy if policy.starts_with("allkeys") => EVICTS_LOCKS,
        // Completion records have an expiry.
        "noeviction" => return None,
        _ if node.info_number("dlock_done_keys").unwrap_or(0) == 0 => return None,
        _ => "it evicts the records of done locks, and their jobs run again",
    };
    (node.config_number("maxmemory")? > 0).then(|| {
        Finding::warning("eviction", format!("maxmemory-policy is {policy}"))
            .why(why)
            .fix("noeviction; if no job is ever left done, volatile-* is enough (CONFIG SET maxmemory-policy, and in its configuration file)")
    })
}

const EVICTS_LOCKS: &str = "it evicts locks: these are lost to their holders, and no client gets them before their leases would have ended";

fn lock_memory(node: &NodeAnswers) -> Option<Finding> {
    let used = node.info_number("dlock_memory")?;
    let most = node.info_number("dlock_memory_most").filter(|most| *most > 0)?;
    (used >= most / 10 * 8).then(|| {
        let percent = used.saturating_mul(100) / most;
        Finding::warning("lock_memory", format!("locks use {percent} % of the memory that they may use"))
            .why("when it is used up, new locks are refused with TOOMANY locks")
            .fix("see with `dlock ls` which they are; raise maxmemory or dlock.max-memory-percent if all of them are needed")
    })
}

fn replicas_missing(node: &NodeAnswers) -> Option<Finding> {
    let needed = node.config_number("min-replicas-to-write").filter(|needed| *needed > 0)?;
    let lag = node.config_number("min-replicas-max-lag")?;
    if lag == 0 {
        return None;
    }
    let good =
        node.info_number("min_slaves_good_slaves").or(node.info_number("connected_slaves"))?;
    (good == needed).then(|| {
        let found = format!("min-replicas-to-write is {needed}, and it has {good}");
        Finding::warning("min_replicas", found)
            .why("when one of them is away, it refuses writes, and with them every lock")
            .fix("attach one more replica")
    })
}

fn replicas(node: &NodeAnswers) -> Option<Finding> {
    let replicas = node.info_number("connected_slaves").filter(|replicas| *replicas > 0)?;
    (node.config("dlock.quarantine")? == "auto").then(|| {
        Finding::hint("replicas", format!("it has {replicas} replica{}", plural(replicas)))
            .why("a promoted replica waits for the leases that it knows; it may not know a longer one that was granted last")
            .fix("CONFIG SET dlock.quarantine 30000 on it and its replicas (the longest lease in use, in ms), and the same in their configuration files")
    })
}

fn timeout(node: &NodeAnswers) -> Option<Finding> {
    let seconds = node.config_number("timeout").filter(|seconds| *seconds > 0)?;
    Some(
        Finding::warning("timeout", format!("timeout is {seconds}: it closes idle connections"))
            .why("EPHEMERAL locks end with their connection, even while their holder works")
            .fix("CONFIG SET timeout 0, and the same in its configuration file"),
    )
}

fn plural(number: i64) -> &'static str {
    if number == 1 { "" } else { "s" }
}
