//! Reports of the nodes, as objects of JavaScript. Times are in milliseconds.

use dlock_client::{DoneInfo, HolderInfo, Key, NodeError, Report, WaiterInfo};
use napi::bindgen_prelude::{Buffer, Either};
use napi_derive::napi;

use crate::arguments::{self, millis};

type Text = Either<String, Buffer>;

/// The state of one node.
#[napi(object, object_from_js = false)]
pub struct NodeReport {
    /// Address of the node, without user and password.
    pub node: String,
    /// Name of the state, for programs.
    pub state: String,
    /// Text for people.
    pub message: String,
}

/// The holder of a lock.
#[napi(object, object_from_js = false)]
pub struct Holder {
    /// Its fence.
    pub fence: f64,
    /// Time since the lock was granted.
    pub held: f64,
    /// Time until its lease ends.
    pub ttl: f64,
    /// Address of its connection.
    pub address: Option<String>,
    /// Number of its connection in CLIENT LIST.
    pub client: Option<f64>,
    /// The holder's text about itself.
    pub meta: Text,
    /// Public name of its token. It does not reveal the token.
    pub id: String,
    /// True if the lock ends with the connection.
    pub ephemeral: bool,
    /// True if the lock was granted to its reserved place.
    pub away: bool,
}

/// The holder that has left a lock done.
#[napi(object, object_from_js = false)]
pub struct Done {
    /// Public name of its token.
    pub id: String,
    /// Its fence.
    pub fence: f64,
    /// Time since it left the lock done.
    pub since: f64,
    /// Its text about the outcome.
    pub outcome: Text,
}

/// A waiter for a lock.
#[napi(object, object_from_js = false)]
pub struct Waiter {
    /// Public name of its token. It does not reveal the token.
    pub id: String,
    /// Requested mode.
    pub mode: String,
    /// Time since it began to wait.
    pub waited: f64,
    /// Time until it gives up.
    pub left: Option<f64>,
    /// Number of its connection in CLIENT LIST.
    pub client: Option<f64>,
    /// The waiter's text about itself.
    pub meta: Text,
    /// True if its request has ended, and its place is reserved.
    pub away: bool,
}

/// One node's report about a lock that is not free.
#[napi(object, object_from_js = false)]
pub struct Inspection {
    /// Mode of the lock.
    pub mode: String,
    /// Permits of a semaphore.
    pub limit: f64,
    /// Number of holders.
    pub holding: f64,
    /// First holders.
    pub holders: Vec<Holder>,
    /// Time until a foreign lock expires, or a done one is free.
    pub expires: Option<f64>,
    /// The holder that has left the lock done.
    pub done: Option<Done>,
    /// Number of waiters.
    pub waiting: f64,
    /// First waiters.
    pub waiters: Vec<Waiter>,
}

/// One node's answer about a lock.
#[napi(object, object_from_js = false)]
pub struct NodeInspection {
    /// Address of the node, without user and password.
    pub node: String,
    /// Its report, if the lock is not free there.
    pub lock: Option<Inspection>,
    /// Its error, if it did not answer.
    pub error: Option<NodeReport>,
}

/// The number of leases that one node ended.
#[napi(object, object_from_js = false)]
pub struct NodeBreak {
    /// Address of the node, without user and password.
    pub node: String,
    /// Number of leases.
    pub ended: Option<f64>,
    /// Its error, if it did not answer.
    pub error: Option<NodeReport>,
}

/// A lock without renewal here.
#[napi(object, object_from_js = false)]
pub struct Lease {
    /// The lock.
    pub key: Text,
    /// Token to extend and release it.
    pub token: String,
    /// Its fence.
    pub fence: f64,
    /// Time until the validity ends.
    pub valid_for: f64,
}

/// A notice for an operator. Fields that do not belong to its event are missing.
#[napi(object, object_from_js = false)]
#[derive(Default)]
pub struct Notice {
    /// Name of the event, for programs.
    pub event: String,
    /// Text for people.
    pub message: String,
    /// The lock.
    pub key: Option<Text>,
    /// The node.
    pub node: Option<String>,
    /// Address of the node's new primary.
    pub server: Option<String>,
    /// Time until the new primary grants locks.
    pub quarantine: Option<f64>,
    /// Node-id of the former server.
    pub before: Option<String>,
    /// Node-id of the present server.
    pub now: Option<String>,
    /// Number of nodes that are a majority.
    pub needed: Option<u32>,
    /// Number of nodes.
    pub of: Option<u32>,
    /// Last known state of each node.
    pub nodes: Option<Vec<NodeReport>>,
    /// The nodes that have not released the lock.
    pub left: Option<Vec<NodeReport>>,
    /// Time until the leases there have ended.
    pub within: Option<f64>,
}

pub(crate) fn key(key: &Key) -> Text {
    arguments::shown(key)
}

pub(crate) fn nodes(nodes: &[Report]) -> Vec<NodeReport> {
    nodes.iter().map(node).collect()
}

pub(crate) fn holder(holder: &HolderInfo) -> Holder {
    Holder {
        fence: arguments::fence(holder.fence),
        held: millis(holder.held),
        ttl: millis(holder.ttl),
        address: holder.address.clone(),
        client: holder.client.map(arguments::fence),
        meta: arguments::bytes(&holder.meta),
        id: holder.id.clone(),
        ephemeral: holder.ephemeral,
        away: holder.away,
    }
}

pub(crate) fn done(done: &DoneInfo) -> Done {
    Done {
        id: done.id.clone(),
        fence: arguments::fence(done.fence),
        since: millis(done.since),
        outcome: arguments::bytes(&done.outcome),
    }
}

pub(crate) fn lease(lease: &dlock_client::Lease) -> Lease {
    Lease {
        key: key(&lease.key),
        token: lease.token.to_string(),
        fence: arguments::fence(lease.fence),
        valid_for: millis(lease.valid_for),
    }
}

/// A node's report about a lock; none where the lock is free.
pub(crate) fn inspected(
    (name, answer): (String, Result<Option<dlock_client::Inspection>, NodeError>),
) -> NodeInspection {
    match answer {
        Ok(lock) => NodeInspection { node: name, lock: lock.as_ref().map(inspection), error: None },
        Err(why) => NodeInspection { error: Some(error(&name, why)), node: name, lock: None },
    }
}

/// The number of leases that a node ended.
pub(crate) fn broken((name, answer): (String, Result<u64, NodeError>)) -> NodeBreak {
    match answer {
        Ok(ended) => NodeBreak { node: name, ended: Some(arguments::fence(ended)), error: None },
        Err(why) => NodeBreak { error: Some(error(&name, why)), node: name, ended: None },
    }
}

pub(crate) fn notice(notice: &dlock_client::Notice) -> Notice {
    use dlock_client::Notice as Event;
    let number = |count: &usize| u32::try_from(*count).ok();
    let (event, message) = (notice.name().to_owned(), notice.to_string());
    let common = Notice { event, message, ..Notice::default() };
    match notice {
        Event::Stranger { node, before, now } => Notice {
            node: Some(node.clone()),
            before: Some(before.clone()),
            now: Some(now.clone()),
            ..common
        },
        Event::Promoted { node, server, quarantine } => Notice {
            node: Some(node.clone()),
            server: Some(server.clone()),
            quarantine: Some(millis(*quarantine)),
            ..common
        },
        Event::Outage { key: lock, needed, nodes: said } => Notice {
            key: Some(key(lock)),
            needed: number(needed),
            nodes: Some(nodes(said)),
            ..common
        },
        Event::NotReleased { key: lock, needed, of, left, within } => Notice {
            key: Some(key(lock)),
            needed: number(needed),
            of: number(of),
            left: Some(nodes(left)),
            within: Some(millis(*within)),
            ..common
        },
        Event::Back { key: lock } => Notice { key: Some(key(lock)), ..common },
        _ => common,
    }
}

fn node(Report { node, state }: &Report) -> NodeReport {
    let (state, message) = (state.name().to_owned(), state.to_string());
    NodeReport { node: node.clone(), state, message }
}

fn error(name: &str, error: NodeError) -> NodeReport {
    node(&Report { node: name.to_owned(), state: error.into() })
}

fn inspection(lock: &dlock_client::Inspection) -> Inspection {
    Inspection {
        mode: lock.mode.clone(),
        limit: arguments::fence(lock.limit),
        holding: arguments::fence(lock.holding),
        holders: lock.holders.iter().map(holder).collect(),
        expires: lock.expires.map(millis),
        done: lock.done.as_ref().map(done),
        waiting: arguments::fence(lock.waiting),
        waiters: lock.waiters.iter().map(waiter).collect(),
    }
}

fn waiter(waiter: &WaiterInfo) -> Waiter {
    Waiter {
        id: waiter.id.clone(),
        mode: waiter.mode.clone(),
        waited: millis(waiter.waited),
        left: waiter.left.map(millis),
        client: waiter.client.map(arguments::fence),
        meta: arguments::bytes(&waiter.meta),
        away: waiter.away,
    }
}
