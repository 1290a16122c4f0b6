//! Reads from a node all facts that the checks need.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use dlock_client::operator::StandBy;
use futures_util::future::join_all;
use redis::{Pipeline, Value, pipe};

use super::facts::{Asked, Clock, Facts, Fields, NodeAnswers, Reserve};
use crate::nodes::ask::{Node, Nodes, Trouble};
use crate::nodes::reply::{bytes, text};

/// The facts of all nodes.
pub async fn facts(nodes: &Nodes) -> Vec<Facts> {
    let apart = nodes.apart();
    let asked = apart.iter().enumerate().map(async |(node, alone)| {
        let in_cluster = alone.has_cluster();
        let answers = alone.each(answers).await.into_iter();
        let facts = answers.map(|(name, answers)| Facts {
            name,
            node,
            in_cluster,
            answers: answers.map_err(String::from),
        });
        facts.collect::<Vec<_>>()
    });
    join_all(asked).await.into_iter().flatten().collect()
}

/// Returns the replicas and Sentinels of each node that fails over by Sentinels.
pub async fn reserves(nodes: &Nodes, facts: &[Facts]) -> Vec<Reserve> {
    let apart = nodes.apart();
    let asked = apart.iter().enumerate().map(async |(node, alone)| {
        let StandBy { replicas, sentinels, .. } = alone.stand_by().await.ok()??;
        let replicas = replicas.into_iter().map(|server| (server.name.clone(), Ok(server)));
        let answers = alone.ask_all(replicas, answers).await.into_iter();
        Some(Reserve {
            primary: facts.iter().find(|facts| facts.node == node)?.clone(),
            replicas: answers.map(|(name, said)| (name, said.map_err(String::from))).collect(),
            sentinels: sentinels
                .into_iter()
                .map(|(name, said)| {
                    let said = said.map_err(|error| error.to_string());
                    (name, said.map(|fields| fields.into_iter().collect()))
                })
                .collect(),
        })
    });
    join_all(asked).await.into_iter().flatten().collect()
}

/// Returns the facts of one server.
pub async fn answers(mut node: Node) -> Result<NodeAnswers, Trouble> {
    // In this order a pause between the two counts as uncertainty.
    let (begun, before) = (Instant::now(), SystemTime::now());
    let said = node.run_all(questions()).await?;
    let uncertainty = begun.elapsed().as_micros() as i64 / 2;
    let [time, info, config, about, cluster, probes @ ..] = &said[..] else {
        return Err("it sent fewer replies than it got requests: is a proxy in between?".into());
    };
    let rights =
        [(about, "+dlock.node"), (info, "+info"), (config, "+config|get"), (time, "+time")];
    let lacks = rights.iter().filter(|(answer, _)| error(answer).is_some());
    Ok(NodeAnswers {
        info: lines(info),
        config: pairs(config),
        node: pairs(about),
        cluster: lines(cluster),
        lacks: lacks.map(|(_, right)| *right).collect(),
        denied: denied(probes),
        clock: clock(time, before, uncertainty),
    })
}

/// Compares a reply to TIME with this machine's clock. The server has read its own somewhere between `before` and
/// twice the uncertainty after it.
fn clock(reply: &Value, before: SystemTime, uncertainty: i64) -> Option<Clock> {
    let here = before.duration_since(UNIX_EPOCH).unwrap_or_default().as_micros() as i64;
    let number = |value: &Value| text(value)?.parse::<i64>().ok();
    let [seconds, micros] = reply.as_sequence()? else { return None };
    let time = number(seconds)? * 1_000_000 + number(micros)?;
    Some(Clock { time, ahead: time - here - uncertainty, uncertainty })
}

fn questions() -> Pipeline {
    let mut all = pipe();
    all.cmd("TIME");
    all.cmd("INFO").arg("default").arg("dlock");
    all.cmd("CONFIG").arg("GET").arg(SETTINGS);
    all.cmd("DLOCK.NODE");
    all.cmd("CLUSTER").arg("INFO");
    for (name, arguments) in PROBES {
        all.cmd(name).arg(arguments);
    }
    all
}

/// The commands that a lock needs, in requests that a server refuses for their arguments, or earlier for a missing
/// permission. They do not change the key.
const PROBES: [(&str, &[&str]); 3] = [
    ("DLOCK.ACQUIRE", &[KEY, "", "1"]),
    ("DLOCK.EXTEND", &[KEY, "", "1"]),
    ("DLOCK.RELEASE", &[KEY, ""]),
];

const KEY: &str = "dlock:doctor";

/// Settings that the checks need. Only these are requested, because others include passwords.
const SETTINGS: &[&str] = &[
    "appendonly",
    "dlock.max-ttl",
    "dlock.newborn-quarantine",
    "dlock.quarantine",
    "maxmemory",
    "maxmemory-policy",
    "min-replicas-max-lag",
    "min-replicas-to-write",
    "save",
    "timeout",
];

/// Commands that are not permitted. A user may lack a command, or this key, which does not show the rights to
/// other keys.
fn denied(probes: &[Value]) -> Vec<&'static str> {
    let is_denied = |value: &Value| {
        error(value).is_some_and(|error| error.starts_with("NOPERM") && error.contains("to run"))
    };
    let denied = PROBES.iter().zip(probes).filter(|(_, answer)| is_denied(answer));
    denied.map(|((name, _), _)| *name).collect()
}

fn error(value: &Value) -> Option<String> {
    match value {
        Value::ServerError(error) => {
            Some(format!("{} {}", error.code(), error.details().unwrap_or_default()))
        }
        _ => None,
    }
}

fn lines(value: &Value) -> Asked {
    match (error(value), bytes(value)) {
        (Some(error), _) => Err(error),
        (None, Some(bytes)) => Ok(Fields::of_lines(&String::from_utf8_lossy(&bytes))),
        (None, None) => Err("an answer of an unknown kind".to_owned()),
    }
}

fn pairs(value: &Value) -> Asked {
    if let Some(error) = error(value) {
        return Err(error);
    }
    let pairs = value.as_map_iter().ok_or("an answer of an unknown kind")?;
    let words = |value: &Value| match value {
        Value::Int(number) => number.to_string(),
        other => text(other).unwrap_or_default(),
    };
    Ok(pairs.map(|(name, value)| (words(name), words(value))).collect())
}
