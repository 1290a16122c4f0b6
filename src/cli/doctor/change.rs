//! Compares a set of nodes with an earlier one: can both grant the same lock?

use std::collections::BTreeMap;
use std::fs;

use serde_json::{Value, json};

use super::collect;
use super::facts::Facts;
use super::finding::Finding;
use crate::global::Global;
use crate::locks::ls;
use crate::nodes;
use crate::nodes::ask::Nodes;
use crate::say::bytes;
use crate::say::failure::Failure;

/// One node of a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    pub address: String,
    /// The node-id of its server; none if it does not answer, or is a cluster, which has several.
    pub id: Option<String>,
    /// True for a primary behind Sentinels and for a cluster: other servers may be the same node.
    pub fails_over: bool,
}

/// The earlier set.
#[derive(Clone, Debug, Default)]
pub struct Before {
    pub members: Vec<Member>,
    /// The locks that a majority of it holds, if its nodes answer.
    pub held: Vec<Vec<u8>>,
}

impl Before {
    /// Reads the value of `--against`: a list of nodes, or `@` and a file with an earlier report.
    pub async fn read(against: &str, global: &Global) -> Result<Before, Failure> {
        if let Some(path) = against.strip_prefix('@') {
            let report = fs::read_to_string(path)
                .map_err(|error| Failure::usage(format_args!("--against: {path}: {error}")))?;
            let members = recorded(&report)
                .ok_or_else(|| Failure::usage(format_args!("--against: {path}: {NO_REPORT}")))?;
            return Ok(Before { members, held: Vec::new() });
        }
        let urls = nodes::read(&[against.to_owned()]);
        if urls.is_empty() {
            return Err(Failure::usage("--against: the list of nodes is empty"));
        }
        let old = Nodes::at(&urls, global)?;
        let members = members(&old, &collect::facts(&old).await);
        let counts = on_how_many(&old).await;
        let held = counts.into_iter().filter(|(_, nodes)| *nodes >= old.majority());
        Ok(Before { members, held: held.map(|(key, _)| key).collect() })
    }
}

/// The members of a set, with the facts of its servers.
pub fn members(nodes: &Nodes, facts: &[Facts]) -> Vec<Member> {
    let member = |(at, (address, fails_over))| {
        let mut servers = facts.iter().filter(|facts| facts.node == at);
        let server = servers.next().filter(|_| servers.next().is_none());
        let answers = server.and_then(|server| server.answers.as_ref().ok());
        let id = answers.and_then(|answers| answers.node("node-id")).map(str::to_owned);
        Member { address, id, fails_over }
    };
    nodes.names().enumerate().map(member).collect()
}

/// The members in JSON, for comparison with a later report.
pub fn record(members: &[Member]) -> Value {
    members
        .iter()
        .map(|one| json!({"node": one.address, "node_id": one.id, "fails_over": one.fails_over}))
        .collect()
}

fn recorded(report: &str) -> Option<Vec<Member>> {
    let last: Value = serde_json::from_str(report.lines().last()?).ok()?;
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let read = |one: &Value| {
        let (id, fails_over) = (text(&one["node_id"]), one["fails_over"].as_bool()?);
        Some(Member { address: text(&one["node"])?, id, fails_over })
    };
    last["members"].as_array()?.iter().map(read).collect()
}

/// Number of nodes that hold each lock.
pub async fn on_how_many(nodes: &Nodes) -> BTreeMap<Vec<u8>, usize> {
    let answers = nodes.each(|node| ls::locks(node, None, &["dlock-key"])).await;
    let found = answers.into_iter().filter_map(|(_, found)| found.ok());
    let mut counts = BTreeMap::new();
    for (key, lock) in found.flatten() {
        *counts.entry(key).or_default() += usize::from(lock.is_held());
    }
    counts
}

/// Problems of the change from one set to the other. `now_held`: the number of present nodes that hold each
/// lock.
pub fn findings(
    before: &Before,
    now: &[Member],
    now_held: &BTreeMap<Vec<u8>, usize>,
) -> Vec<Finding> {
    let mut all: Vec<Finding> = now.iter().filter_map(|one| moved(one, before, now)).collect();
    if let Some(finding) = two_majorities(&before.members, now) {
        all.push(finding);
        all.extend(held_twice(before, now, now_held));
    }
    all
}

/// Reports an address that leads to another node than before.
fn moved(one: &Member, before: &Before, now: &[Member]) -> Option<Finding> {
    let old = before.members.iter().find(|old| old.address == one.address)?;
    let (was, is) = (old.id.as_ref()?, one.id.as_ref()?);
    if was == is || one.fails_over {
        return None;
    }
    let knows =
        |members: &[Member], id: &Option<String>| members.iter().any(|member| member.id == *id);
    // The nodes are the same, at other addresses.
    if knows(&before.members, &one.id) && knows(now, &old.id) {
        return None;
    }
    let finding = Finding::error("other_node", format!("it leads to another node than before: to {is}, not to {was}"))
        .why("the new node does not know the locks that the earlier one granted: two holders are possible until their leases have ended")
        .fix("if the address is right, stop the new node, delete its state file, and start it with dlock.newborn-quarantine no shorter than the longest lease in use; `Changing the set` in docs/several-nodes.md says more");
    Some(finding.about(&one.address))
}

/// Reports a majority of the one set that shares no node with some majority of the other.
fn two_majorities(before: &[Member], now: &[Member]) -> Option<Finding> {
    let (stay, gone): (Vec<&Member>, Vec<&Member>) =
        before.iter().partition(|old| now.iter().any(|one| old.is(one)));
    let new: Vec<&Member> =
        now.iter().filter(|one| !before.iter().any(|old| old.is(one))).collect();
    let of_stay = |set: usize, own: usize| (set / 2 + 1).saturating_sub(own);
    let (olds, news) = (of_stay(before.len(), gone.len()), of_stay(now.len(), new.len()));
    if olds + news > stay.len() {
        return None;
    }
    let names = |own: &[&Member], set: usize, shared: &[&Member]| {
        let members = own.iter().chain(shared).take(set / 2 + 1);
        members.map(|member| member.address.clone()).collect::<Vec<_>>().join(" and ")
    };
    let one = names(&gone, before.len(), &stay[..olds]);
    let other = names(&new, now.len(), &stay[olds..]);
    let mut next: Vec<&str> = before.iter().map(|member| &member.address[..]).collect();
    match (new.first(), gone.first()) {
        (Some(new), _) => next.push(&new.address),
        (None, Some(gone)) => next.retain(|address| *address != gone.address),
        (None, None) => {}
    }
    let found = format!(
        "two holders are possible between the old list and this one: {one} are a majority of the old \
         one, {other} of the new one, and no node is in both"
    );
    Some(
        Finding::error("two_majorities", found)
            .why("clients with the old list and clients with this one may hold the same lock at the same time")
            .fix(format!(
                "one node at a time: give all clients {} first, and the next change when the last \
                 one has it; or stop all clients, wait until `dlock ls` with the old list is empty, \
                 and start them with this one",
                next.join(",")
            )),
    )
}

fn held_twice(
    before: &Before,
    now: &[Member],
    now_held: &BTreeMap<Vec<u8>, usize>,
) -> Option<Finding> {
    let majority = now.len() / 2 + 1;
    let on = |key: &Vec<u8>| now_held.get(key).copied().unwrap_or(0);
    let twice: Vec<String> = before
        .held
        .iter()
        .filter(|key| now.len() - on(key).min(now.len()) >= majority)
        .map(|key| bytes::shown(key))
        .collect();
    if twice.is_empty() {
        return None;
    }
    let more = twice.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let names = twice[..twice.len().min(NAMED)].join(", ");
    let finding = Finding::error("held_twice", format!("held by clients of the old list, and free for clients of this one: {names}{more}"))
        .why("a client of this list can take these locks now, while their holders are at work")
        .fix("give no client this list before these locks are free: `dlock ls` with the old list shows them");
    Some(finding)
}

impl Member {
    /// True for the same node: by its node-id, or else by its address. A node that fails over keeps its address, and
    /// not its server.
    fn is(&self, other: &Member) -> bool {
        let is_there = self.address == other.address;
        match (&self.id, &other.id) {
            (Some(one), Some(other)) => one == other || is_there && self.fails_over,
            _ => is_there,
        }
    }
}

/// Limit of locks that a finding names.
const NAMED: usize = 5;
const NO_REPORT: &str = "it is not a report of `dlock doctor --json`";

#[cfg(test)]
mod tests {
    use super::*;

    fn set(ids: &[u8]) -> Vec<Member> {
        let member = |id: &u8| {
            let (address, id) = (format!("node{id}:1"), Some(id.to_string()));
            Member { address, id, fails_over: false }
        };
        ids.iter().map(member).collect()
    }

    fn checks(before: &[Member], now: &[Member]) -> Vec<&'static str> {
        let before = Before { members: before.to_vec(), held: Vec::new() };
        findings(&before, now, &BTreeMap::new()).iter().map(|finding| finding.check).collect()
    }

    /// Compares with every choice of a majority of each.
    #[test]
    fn two_majorities_are_found_exactly_where_two_can_be_chosen() {
        let subsets = |set: &[u8]| -> Vec<Vec<u8>> {
            let chosen = |mask: u32| {
                let of = set.iter().enumerate().filter(move |(at, _)| mask >> at & 1 == 1);
                of.map(|(_, id)| *id).collect()
            };
            (1..1_u32 << set.len()).map(chosen).collect()
        };
        let majorities = |set: &[u8]| -> Vec<Vec<u8>> {
            subsets(set).into_iter().filter(|some| some.len() > set.len() / 2).collect()
        };
        let all = subsets(&[1, 2, 3, 4, 5, 6]);
        for before in all.iter().filter(|set| set.len() <= 5) {
            for now in all.iter().filter(|set| set.len() <= 5) {
                let (olds, news) = (majorities(before), majorities(now));
                let apart = |old: &Vec<u8>, new: &Vec<u8>| old.iter().all(|id| !new.contains(id));
                let can_be = olds.iter().any(|old| news.iter().any(|new| apart(old, new)));
                let found = two_majorities(&set(before), &set(now)).is_some();
                assert_eq!(found, can_be, "{before:?} and {now:?}");
                let added = now.iter().filter(|id| !before.contains(id)).count();
                let removed = before.iter().filter(|id| !now.contains(id)).count();
                assert!(!found || added + removed > 1, "one at a time: {before:?}, {now:?}");
            }
        }
    }

    #[test]
    fn the_two_majorities_are_named_and_the_first_step_of_a_safe_way() {
        let finding = two_majorities(&set(&[1, 2, 3]), &set(&[2, 4, 1])).expect("it is found");
        let words = "node3:1 and node1:1 are a majority of the old one, node4:1 and node2:1 of the";
        assert!(finding.found.contains(words), "{finding:?}");
        assert!(finding.fix.contains("node1:1,node2:1,node3:1,node4:1 first"), "{finding:?}");
        let removed = two_majorities(&set(&[1, 2, 3]), &set(&[2])).expect("it is found");
        assert!(removed.fix.contains("all clients node2:1,node3:1 first"), "{removed:?}");
    }

    #[test]
    fn an_address_that_leads_elsewhere_is_told_by_what_the_node_calls_itself() {
        let before = set(&[1, 2, 3]);
        let mut now = before.clone();
        assert_eq!(checks(&before, &now), [""; 0]);
        now[1].id = Some("4".to_owned());
        assert_eq!(checks(&before, &now), ["other_node", "two_majorities"]);
        now[1].id = Some("3".to_owned());
        now[2].id = Some("2".to_owned());
        assert_eq!(checks(&before, &now), [""; 0], "the same nodes, at other addresses");
        // A node that moved with its state file is the same node.
        let mut now = before.clone();
        now[2].address = "elsewhere:1".to_owned();
        assert_eq!(checks(&before, &now), [""; 0]);
        // A node that does not answer has only its address.
        now = before.clone();
        now[0].id = None;
        assert_eq!(checks(&before, &now), [""; 0]);
    }

    #[test]
    fn a_node_that_has_failed_over_is_the_same_node() {
        let mut before = set(&[1, 2, 3]);
        before.iter_mut().for_each(|one| one.fails_over = true);
        let mut now = before.clone();
        now.iter_mut().zip(["4", "5", "6"]).for_each(|(one, id)| one.id = Some(id.to_owned()));
        assert_eq!(checks(&before, &now), [""; 0]);
        // With one more Sentinel in its address, the node is recognised by its server.
        now = before.clone();
        now[0].address = "redis+sentinel://s1,s2/main".to_owned();
        assert_eq!(checks(&before, &now), [""; 0]);
    }

    #[test]
    fn a_report_is_read_as_it_was_written() {
        let mut members = set(&[1, 2]);
        (members[1].id, members[1].fails_over) = (None, true);
        let report =
            format!("{}\n{}\n", json!({"check": "x"}), json!({"members": record(&members)}));
        assert_eq!(recorded(&report), Some(members));
        assert_eq!(recorded("no report"), None);
        assert_eq!(recorded(""), None);
    }
}
