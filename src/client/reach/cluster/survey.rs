//! Asks servers of a cluster for the slot map.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use redis::cmd;
use tokio::time::timeout;

use super::map::Slots;
use crate::printable::brief;
use crate::reach::address::Seeds;
use crate::reach::address::host::Host;
use crate::reach::wire::Wire;
use crate::report::NodeError;

/// Returns the map with the highest epoch among the answers of a majority, or, after a short wait, of fewer. If
/// members of the cluster are known, a server of another cluster counts only if it is a seed and no member answers.
/// An open connection proves membership: the server was recognised when it was opened.
pub(crate) async fn newest(
    seeds: &Seeds,
    asked: BTreeMap<Host, Option<Wire>>,
    members: &BTreeSet<String>,
    within: Duration,
) -> Result<Slots, NodeError> {
    let majority = asked.len() / 2 + 1;
    let ask = async |host: Host, wire: Option<Wire>| {
        let (is_seed, is_known) = (seeds.hosts.contains(&host), wire.is_some());
        let (epoch, slots) = ask(seeds, host.clone(), wire, within).await?;
        match is_known || is_member(members, &slots) {
            false if !is_seed => Err(NodeError::Unreachable(STRANGER.to_owned()).at(&host)),
            is_member => Ok(((is_member, epoch), slots)),
        }
    };
    let mut coming: FuturesUnordered<_> =
        asked.into_iter().map(|(host, wire)| ask(host, wire)).collect();
    let mut found: Option<((bool, u64), Slots)> = None;
    let mut answers = 0;
    let mut failed = Vec::new();
    loop {
        let next = coming.next();
        let next = match &found {
            None | Some(((false, _), _)) => next.await,
            Some(_) if answers >= majority => None,
            Some(_) => timeout(GRACE, next).await.unwrap_or(None),
        };
        match next {
            None => break,
            Some(Ok((rank, slots))) => {
                answers += usize::from(rank.0);
                if found.as_ref().is_none_or(|(best, _)| rank > *best) {
                    found = Some((rank, slots));
                }
            }
            Some(Err(error)) => failed.push(error),
        }
    }
    found.map(|(_, slots)| slots).ok_or_else(|| no_answer(failed))
}

/// True if this map is one of the cluster that has these members, as far as any are known.
fn is_member(members: &BTreeSet<String>, slots: &Slots) -> bool {
    members.is_empty() || !members.is_disjoint(&slots.members)
}

/// Returns the members of the server's cluster. Fails unless some of these are among them: another server may have
/// the address by now.
pub(crate) async fn recognise(
    wire: &Wire,
    host: &Host,
    seeds: &Seeds,
    members: &BTreeSet<String>,
    within: Duration,
) -> Result<BTreeSet<String>, NodeError> {
    let read = timeout(within, map_of(wire, host, seeds)).await;
    match read.unwrap_or(Err(NodeError::TimedOut(within))) {
        Ok(slots) if is_member(members, &slots) => Ok(slots.members),
        Ok(_) => Err(NodeError::Unreachable(STRANGER.to_owned())),
        Err(NodeError::Unfit(why)) => Err(NodeError::Unreachable(why)),
        Err(error) => Err(error),
    }
}

/// Reads a server's map.
async fn map_of(wire: &Wire, host: &Host, seeds: &Seeds) -> Result<Slots, NodeError> {
    let reply = wire.send(cmd("CLUSTER").arg("SLOTS")).await.map_err(explained)?;
    Slots::read(&reply, &host.name, &seeds.servers.map).map_err(|part| {
        let part = brief(format_args!("{part:?}"));
        NodeError::Unfit(format!("its map of the slots cannot be understood: {part}"))
    })
}

/// Joins the errors of all servers. Errors that may pass decide over those that will not.
fn no_answer(mut failed: Vec<NodeError>) -> NodeError {
    failed.sort_by_key(|error| !matches!(error, NodeError::Unreachable(_)));
    let words = |error: &NodeError| match error {
        NodeError::Unreachable(why) => why.clone(),
        other => other.to_string(),
    };
    let all: Vec<String> = failed.iter().map(words).collect();
    match failed.into_iter().next() {
        Some(NodeError::Unreachable(_)) => NodeError::Unreachable(all.join("; ")),
        Some(error) => error,
        None => NodeError::Unreachable("no server of the cluster is known".to_owned()),
    }
}

/// Reads one server's map, and its epoch, over this connection or a new one.
async fn ask(
    seeds: &Seeds,
    host: Host,
    wire: Option<Wire>,
    within: Duration,
) -> Result<(u64, Slots), NodeError> {
    let used = wire.clone();
    let endpoint = seeds.servers.endpoint(&host);
    let endpoint = endpoint.map_err(|error| NodeError::from(&error).at(&host))?;
    let asked = async {
        let wire = match wire {
            Some(wire) => wire,
            None => Wire::open(&endpoint, within).await?,
        };
        let slots = map_of(&wire, &host, seeds).await?;
        // Without permission for CLUSTER INFO the epoch counts as 0.
        let epoch = match wire.send(cmd("CLUSTER").arg("INFO")).await {
            Ok(info) => epoch(&info).unwrap_or(0),
            Err(_) => 0,
        };
        Ok((epoch, slots))
    };
    let answer = timeout(within, asked).await.unwrap_or_else(|_| match used {
        Some(wire) => {
            // The next reading asks over a new connection.
            wire.retire();
            Err(NodeError::TimedOut(within))
        }
        None => Err(NodeError::no_connection(endpoint.uses_tls(), within)),
    });
    answer.map_err(|error| error.at(&host))
}

fn epoch(info: &redis::Value) -> Option<u64> {
    let text: String = redis::from_redis_value_ref(info).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("cluster_current_epoch:"))?;
    line.trim().parse().ok()
}

/// Explains the error of a server that is not in a cluster.
fn explained(error: NodeError) -> NodeError {
    match error {
        NodeError::Refused(why) if why.contains("cluster support disabled") => NodeError::Unfit(
            "it is no member of a Redis Cluster: write redis://host:port".to_owned(),
        ),
        NodeError::Refused(why) if why.contains("unknown command") => NodeError::Unfit(
            "it knows no CLUSTER SLOTS (is it a Sentinel? then write \
             redis+sentinel://host:26379/NAME)"
                .to_owned(),
        ),
        error => error,
    }
}

const STRANGER: &str = "it belongs to another cluster";
/// Time to wait for a majority after the first answer.
const GRACE: Duration = Duration::from_millis(150);
