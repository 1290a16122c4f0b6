//! Checks of a set of nodes: independence, agreement, number.

use std::collections::{BTreeMap, BTreeSet};

use super::check::{SetCheck, USUAL_TTL_MS, shown};
use super::facts::{Facts, NodeAnswers};
use super::finding::Finding;

pub const CHECKS: &[SetCheck] = &[
    same_server,
    same_identity,
    one_cluster,
    majority,
    number,
    versions,
    max_ttls,
    clocks,
    fences,
];

/// Number of nodes that have a server like this; each server of a cluster serves keys of its own.
pub fn count(servers: &[Facts], is: impl Fn(&Facts) -> bool) -> usize {
    let alike = servers.iter().filter(|facts| is(facts)).map(|facts| facts.node);
    alike.collect::<BTreeSet<usize>>().len()
}

/// The nodes that are single servers, without clusters.
fn alone(nodes: &[Facts]) -> Vec<Facts> {
    nodes.iter().filter(|facts| !facts.in_cluster).cloned().collect()
}

fn answering(nodes: &[Facts]) -> impl Iterator<Item = (&str, &NodeAnswers)> {
    nodes.iter().filter_map(|facts| Some((facts.name.as_str(), facts.answers.as_ref().ok()?)))
}

/// The nodes, grouped by a value that they report.
fn by<'a>(
    nodes: &'a [Facts],
    what: impl Fn(&'a NodeAnswers) -> Option<&'a str>,
) -> BTreeMap<&'a str, Vec<&'a str>> {
    let mut groups: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, answers) in answering(nodes) {
        if let Some(what) = what(answers) {
            groups.entry(what).or_default().push(name);
        }
    }
    groups
}

fn about(finding: Finding, names: &[&str]) -> Finding {
    names.iter().fold(finding, |finding, name| finding.about(name))
}

fn same_server(nodes: &[Facts]) -> Vec<Finding> {
    let groups = by(nodes, |node| node.info("run_id"));
    let same = groups.values().filter(|names| names.len() > 1);
    let finding = || {
        Finding::error("duplicate", "these addresses lead to the same server")
            .why("it would vote more than once, and a lock could be granted twice")
            .fix("leave only one of them in DLOCK_NODES or --nodes")
    };
    same.map(|names| about(finding(), names)).collect()
}

/// Different servers with one name: the state file was copied.
fn same_identity(nodes: &[Facts]) -> Vec<Finding> {
    let groups = by(nodes, |node| node.node("node-id").filter(|_| !node.is_replica()));
    let servers = by(nodes, |node| node.info("run_id"));
    let several = |names: &&Vec<&str>| {
        names.len() > 1
            && !servers.values().any(|same| names.iter().all(|name| same.contains(name)))
    };
    let finding = || {
        Finding::error("node_id", "these servers have the same node-id")
            .why("a state file was copied: clients refuse the set, because one node must not vote twice")
            .fix("stop all but one, delete their state files, and start them with dlock.newborn-quarantine no shorter than the longest lease in use")
    };
    groups.values().filter(several).map(|names| about(finding(), names)).collect()
}

fn one_cluster(nodes: &[Facts]) -> Vec<Finding> {
    let nodes = &alone(nodes);
    let parts = answering(nodes).filter(|(_, node)| node.is_part_of_a_cluster());
    let names: Vec<&str> = parts.map(|(name, _)| name).collect();
    let finding = match (names.len(), nodes.len()) {
        (0, _) => return Vec::new(),
        (_, 1) => Finding::warning("cluster", "it is one node of a Redis Cluster")
            .why("it refuses keys of other nodes' slots with MOVED")
            .fix("write redis+cluster://host:port, and the whole cluster is the node"),
        _ => Finding::error("cluster", "cluster-enabled is yes")
            .why("nodes of one cluster share the keys and fail over to each other: they are not independent")
            .fix("cluster-enabled no (in the configuration files of servers for locks; or give one node only)"),
    };
    vec![about(finding, &names)]
}

fn majority(nodes: &[Facts]) -> Vec<Finding> {
    let all = count(nodes, |_| true);
    let needed = all / 2 + 1;
    // A node that refuses this user's DLOCK.NODE may grant locks.
    let may_grant = |node: &NodeAnswers| {
        node.grants() || (node.has_module() && !node.is_replica() && node.node.is_err())
    };
    if count(nodes, |facts| facts.answers.as_ref().is_ok_and(may_grant)) >= needed {
        return Vec::new();
    }
    let granting = count(nodes, |facts| facts.answers.as_ref().is_ok_and(NodeAnswers::grants));
    let found = format!("{granting} of {all} nodes grant locks, and {needed} are needed");
    let finding = Finding::error("majority", found)
        .why("no lock can be taken now")
        .fix("see the findings about each node");
    vec![finding]
}

fn number(nodes: &[Facts]) -> Vec<Finding> {
    let finding = match count(nodes, |_| true) {
        2 => Finding::warning("number", "there are two nodes")
            .why("every lock needs both: that is worse than one node")
            .fix("add a third node, or leave one out"),
        even if even % 2 == 0 => {
            Finding::hint("number", format!("there are {even} nodes, an even number"))
                .why(format!("they survive the loss of {}, as {} nodes do", even / 2 - 1, even - 1))
                .fix("add a node, or leave one out")
        }
        _ => return Vec::new(),
    };
    vec![finding]
}

fn versions(nodes: &[Facts]) -> Vec<Finding> {
    let groups = by(nodes, |node| node.node("version"));
    let Some((newest, _)) = groups.iter().max_by_key(|(version, _)| numbers(version)) else {
        return Vec::new();
    };
    let old = groups.iter().filter(|(version, _)| version != &newest);
    let finding = |version: &str| {
        Finding::warning("module_version", format!("it has dlock {version}, others have {newest}"))
            .why("a majority may lack what the newer one can do")
            .fix(format!("load libdlock.so {newest} there, one node after the other"))
    };
    old.map(|(version, names)| about(finding(version), names)).collect()
}

fn numbers(version: &str) -> Vec<u64> {
    version.split('.').map(|part| part.parse().unwrap_or(0)).collect()
}

fn max_ttls(nodes: &[Facts]) -> Vec<Finding> {
    // A setting below the usual one has a finding of its own.
    let settings = || {
        answering(nodes)
            .filter_map(|(name, node)| Some((name, node.config_number("dlock.max-ttl")?)))
            .filter(|(_, most)| *most >= USUAL_TTL_MS)
    };
    let Some(largest) = settings().map(|(_, most)| most).max() else { return Vec::new() };
    let finding = |most: i64| {
        let found = format!("dlock.max-ttl is {}, and {} elsewhere", shown(most), shown(largest));
        Finding::warning("max_ttl", found)
            .why("it refuses longer leases, so it has no vote on locks with such leases")
            .fix(format!(
                "CONFIG SET dlock.max-ttl {largest}, and the same in its configuration file"
            ))
    };
    let smaller = settings().filter(|(_, most)| *most < largest);
    smaller.map(|(name, most)| finding(most).about(name)).collect()
}

fn clocks(nodes: &[Facts]) -> Vec<Finding> {
    answering(nodes)
        .filter_map(|(name, node)| node.clock.map(|clock| (name, clock)))
        .map(|(name, clock)| (name, surely(clock.ahead, clock.uncertainty)))
        .filter(|(_, off)| off.abs() > SECOND)
        .map(|(name, off)| clock(off).about(name))
        .collect()
}

/// The part of an offset that is certain.
fn surely(offset: i64, uncertainty: i64) -> i64 {
    offset.signum() * (offset.abs() - uncertainty).max(0)
}

fn clock(off: i64) -> Finding {
    let direction = if off > 0 { "ahead of" } else { "behind" };
    let off = off.abs();
    let found = format!("its clock is {} {direction} this machine's", shown(off / 1000));
    let finding = if off > TOO_FAR_AHEAD {
        Finding::error("clock", found).why(
            "fences begin at the time in µs, and one of more than ten minutes ahead is refused",
        )
    } else {
        Finding::warning("clock", found)
            .why("leases do not depend on it, but nodes refuse fences that are more than ten minutes ahead")
    };
    finding.fix("timedatectl set-ntp true, or chronyc makestep, on the machine that is wrong, and let its servers start after that (After=time-sync.target for systemd)")
}

fn fences(nodes: &[Facts]) -> Vec<Finding> {
    let fence = |node: &NodeAnswers| node.node_number("fence");
    let Some(largest) = answering(nodes).filter_map(|(_, node)| fence(node)).max() else {
        return Vec::new();
    };
    let behind: Vec<&str> = answering(nodes)
        .filter(|(_, node)| node.clock.is_some_and(|own| largest - own.time > TOO_FAR_AHEAD))
        .map(|(name, _)| name)
        .collect();
    if behind.is_empty() {
        return Vec::new();
    }
    let found = format!(
        "another node's fences have reached {largest}, more than ten minutes ahead of its clock"
    );
    let finding = Finding::warning("fences", found)
        .why("it refuses fences that far ahead, so it does not count for locks with such fences")
        .fix("wait until its clock has reached that fence, which is a time in µs; or replace the node whose clock was wrong (docs/failures.md)");
    vec![about(finding, &behind)]
}

/// One second, in µs.
const SECOND: i64 = 1_000_000;

/// A node refuses a proposal that is ten minutes ahead of its clock. The fences of a new node begin a little farther
/// ahead, and it grants none before they are near enough.
const TOO_FAR_AHEAD: i64 = 620 * SECOND;
