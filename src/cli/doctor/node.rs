//! Checks of one node: its module, its grants, its state file, and the rights of this user.

use dlock_core::Millis;
use dlock_core::durability::lease_bound::rounded_up;

use super::check::{Check, USUAL_TTL_MS, shown};
use super::facts::NodeAnswers;
use super::finding::Finding;

/// Checks that must pass before the others matter.
pub const BASICS: &[Check] = &[agent, no_module, no_answer, replica];

/// The checks of a node that has the module.
pub const CHECKS: &[Check] =
    &[quarantine, durable, newborn, quarantine_off, max_ttl, denied, skipped];

fn agent(node: &NodeAnswers) -> Option<Finding> {
    node.is_agent().then(|| {
        let (version, behind) = (node.node("version"), node.node("nodes"));
        let (version, behind) = (version.unwrap_or("?"), behind.unwrap_or("?"));
        Finding::error("agent", format!("it is an agent of dlock {version}; its nodes are {behind}"))
            .why("it grants what a majority of its nodes grants: in a list of nodes that would count twice")
            .fix(format!("dlock doctor --nodes {behind}, with the users and passwords that are needed there"))
    })
}

fn no_module(node: &NodeAnswers) -> Option<Finding> {
    (!node.has_module()).then(|| {
        Finding::error("module", "it runs without the module dlock")
            .why("it does not know dlock's commands, so it counts as a no for every lock")
            .fix("loadmodule /path/to/libdlock.so (in its configuration file; then restart it)")
    })
}

fn no_answer(node: &NodeAnswers) -> Option<Finding> {
    let error = node.node.as_ref().err()?;
    let known = !node.has_module() || error.starts_with("NOPERM");
    (!known).then(|| {
        let loading = error.starts_with("LOADING");
        Finding::error("answers", format!("it answers DLOCK.NODE with: {error}"))
            .why("it counts as a no for every lock until it answers")
            .fix(if loading { "wait until it has loaded its data" } else { "look at its log" })
    })
}

fn replica(node: &NodeAnswers) -> Option<Finding> {
    node.is_replica().then(|| {
        let primary = node.info("master_host").zip(node.info("master_port"));
        let primary = primary.map(|(host, port)| format!(" of {host}:{port}")).unwrap_or_default();
        Finding::error("replica", format!("it is a replica{primary}"))
            .why("a replica grants nothing, and is not independent of its primary")
            .fix("give the address of its primary, or of its Sentinels (redis+sentinel://host:26379/NAME)")
    })
}

fn quarantine(node: &NodeAnswers) -> Option<Finding> {
    let why = node.node("quarantine-reason").unwrap_or("unknown");
    let left = node.node_number("quarantine-ms").filter(|left| *left > 0)?;
    Some(
        Finding::warning("quarantine", format!("it is in quarantine for {}: {why}", shown(left)))
            .why("it may have forgotten leases, and grants nothing until they have ended")
            .fix("wait; or, if all clients were restarted too: CONFIG SET dlock.quarantine off, and the value from before a second later"),
    )
}

fn durable(node: &NodeAnswers) -> Option<Finding> {
    let error = node.node("state-file-error").unwrap_or_default();
    let finding = match node.node("durable")? {
        "no" => Finding::warning("state_file", "it has no state file")
            .why("each start is one after a lost disk: it waits for dlock.newborn-quarantine, and its fences hang on its clock alone")
            .fix("remove dlock.state-file from its configuration file; then restart it"),
        "failing" if node.node("granting") == Some("not-durable") => {
            Finding::error("state_file", format!("it grants nothing: {error}"))
                .why("the promises of its state file are used up, and it cannot write new ones")
                .fix("make room on the disk, or make the folder writable; the node tries again by itself")
        }
        "failing" => Finding::error("state_file", format!("its state file fails: {error}"))
            .why("it refuses leases that are longer than those of the last minutes; about a minute after the first failure it grants nothing any more")
            .fix("make room on the disk, or make the folder writable; the node tries again by itself"),
        _ => return None,
    };
    Some(finding)
}

/// Checks the setting in advance: a lost disk shows only when locks are granted a second time.
fn newborn(node: &NodeAnswers) -> Option<Finding> {
    let longest = node.node_number("lease-bound-ms")?.max(USUAL_TTL_MS);
    let waits = waits_when_newborn(node)?;
    if covers(waits, longest) {
        return None;
    }
    let (waits, run) = (shown(waits), shown(longest));
    let found =
        format!("leases may run for {run}, and after a lost disk it would wait for {waits}");
    Some(
        Finding::warning("newborn", found)
            .why("a node without its state file may have granted locks, and grants them again after that time")
            .fix(format!("CONFIG SET {NEWBORN} {longest}, and the same in its configuration file; or use shorter leases, and renew them")),
    )
}

/// The length of the quarantine after a start without a state file, in milliseconds. `None`: the settings are
/// not known, or `dlock.quarantine` is off, which has a finding of its own.
fn waits_when_newborn(node: &NodeAnswers) -> Option<i64> {
    let least = node.config("dlock.quarantine").filter(|set| *set != "off")?.parse().unwrap_or(0);
    // Zero says that it is new.
    node.config_number(NEWBORN).map(|newborn| if newborn == 0 { 0 } else { newborn.max(least) })
}

/// True if every lease has ended after a quarantine of this length. A bound is rounded up, the setting is not.
fn covers(waits: i64, bound: i64) -> bool {
    rounded_up(Millis(waits.unsigned_abs())) >= Millis(bound.unsigned_abs())
}

fn quarantine_off(node: &NodeAnswers) -> Option<Finding> {
    (node.config("dlock.quarantine")? == "off").then(|| {
        Finding::warning("quarantine_off", "dlock.quarantine is off")
            .why("after a crash it grants locks that other clients may still hold")
            .fix("CONFIG SET dlock.quarantine auto, and the same in its configuration file")
    })
}

fn max_ttl(node: &NodeAnswers) -> Option<Finding> {
    let most = node.config_number("dlock.max-ttl").filter(|most| *most < USUAL_TTL_MS)?;
    Some(
        Finding::error("max_ttl", format!("dlock.max-ttl is {}, and a usual lease {}", shown(most), shown(USUAL_TTL_MS)))
            .why("it refuses `dlock run` without --ttl, and the library without .ttl(…)")
            .fix("CONFIG SET dlock.max-ttl 600000, and the same in its configuration file; or use shorter leases everywhere"),
    )
}

fn denied(node: &NodeAnswers) -> Option<Finding> {
    let names = node.denied.join(", ");
    let rights: Vec<String> = node.denied.iter().map(|name| format!("+{name}")).collect();
    (!node.denied.is_empty()).then(|| {
        Finding::error("acl", format!("this user may not run {names}"))
            .why("without them it can neither take nor extend nor release a lock here")
            .fix(format!(
                "run doctor as the user that takes locks; or ACL SETUSER <this user> {}",
                rights.join(" ")
            ))
    })
}

fn skipped(node: &NodeAnswers) -> Option<Finding> {
    let rights = node.lacks.join(" ");
    (!node.lacks.is_empty()).then(|| {
        Finding::hint("skipped", format!("it refuses requests that need {rights}"))
            .why("the checks that need them were skipped: this report is not complete")
            .fix(format!("run doctor as another user, or ACL SETUSER <this user> {rights}"))
    })
}

const NEWBORN: &str = "dlock.newborn-quarantine";
