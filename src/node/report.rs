//! What the nodes say, as objects of JavaScript. Times are in milliseconds.

use dlock_client::{HolderInfo, Key, NodeError, Report, WaiterInfo};
use napi::bindgen_prelude::{Buffer, Either};
use napi_derive::napi;

use crate::arguments::{self, millis};

type Text = Either<String, Buffer>;

/// What one node said.
#[napi(object, object_from_js = false)]
pub struct NodeReport {
    /// Its address, without user and password.
    pub node: String,
    /// A word for programs.
    pub state: String,
    /// The same for people.
    pub message: String,
}

/// Who holds a lock.
#[napi(object, object_from_js = false)]
pub struct Holder {
    /// Its fence.
    pub fence: f64,
    /// For how long it has held the lock.
    pub held: f64,
    /// For how long its lease still runs.
    pub ttl: f64,
    /// Where its connection comes from.
    pub address: Option<String>,
    /// The number of its connection in CLIENT LIST.
    pub client: Option<f64>,
    /// What it says about itself.
    pub meta: Text,
    /// A name for its token that tells nothing of it.
    pub id: String,
    /// Whether the lock ends with the connection.
    pub ephemeral: bool,
    /// Whether its turn came while it was away.
    pub away: bool,
}

/// Who waits for a lock.
#[napi(object, object_from_js = false)]
pub struct Waiter {
    /// A name for its token that tells nothing of it.
    pub id: String,
    /// How it wants to hold the lock.
    pub mode: String,
    /// For how long it has waited.
    pub waited: f64,
    /// For how much longer it will.
    pub left: Option<f64>,
    /// The number of its connection in CLIENT LIST.
    pub client: Option<f64>,
    /// What it says about itself.
    pub meta: Text,
    /// Whether only its place is kept.
    pub away: bool,
}

/// What one node knows about a lock that is not free.
#[napi(object, object_from_js = false)]
pub struct Inspection {
    /// How it is held.
    pub mode: String,
    /// The permits of a semaphore.
    pub limit: f64,
    /// How many hold it.
    pub holding: f64,
    /// The first of them.
    pub holders: Vec<Holder>,
    /// When a foreign lock expires.
    pub expires: Option<f64>,
    /// How many wait.
    pub waiting: f64,
    /// The first of them.
    pub waiters: Vec<Waiter>,
}

/// What one node says about a lock.
#[napi(object, object_from_js = false)]
pub struct NodeInspection {
    /// Its address, without user and password.
    pub node: String,
    /// What it knows, if the lock is not free there.
    pub lock: Option<Inspection>,
    /// Why it did not answer.
    pub error: Option<NodeReport>,
}

/// How many leases of a lock one node has ended.
#[napi(object, object_from_js = false)]
pub struct NodeBreak {
    /// Its address, without user and password.
    pub node: String,
    /// How many.
    pub ended: Option<f64>,
    /// Why it did not answer.
    pub error: Option<NodeReport>,
}

/// A lock that nobody here renews.
#[napi(object, object_from_js = false)]
pub struct Lease {
    /// The lock.
    pub key: Text,
    /// What to extend and to release it with.
    pub token: String,
    /// Its fence.
    pub fence: f64,
    /// For how long it is valid.
    pub valid_for: f64,
}

/// Something that an operator should know. What does not belong to its event is missing.
#[napi(object, object_from_js = false)]
#[derive(Default)]
pub struct Notice {
    /// A word for programs.
    pub event: String,
    /// The same for people.
    pub message: String,
    /// The lock.
    pub key: Option<Text>,
    /// The node.
    pub node: Option<String>,
    /// Where its new primary is.
    pub server: Option<String>,
    /// For how long that grants nothing.
    pub quarantine: Option<f64>,
    /// The node-id of the server that was there before.
    pub before: Option<String>,
    /// That of the one that is there now.
    pub now: Option<String>,
    /// How many nodes are a majority.
    pub needed: Option<u32>,
    /// How many nodes there are.
    pub of: Option<u32>,
    /// What each node said last.
    pub nodes: Option<Vec<NodeReport>>,
    /// The nodes that have not released the lock.
    pub left: Option<Vec<NodeReport>>,
    /// When the leases end there.
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

pub(crate) fn lease(lease: &dlock_client::Lease) -> Lease {
    Lease {
        key: key(&lease.key),
        token: lease.token.to_string(),
        fence: arguments::fence(lease.fence),
        valid_for: millis(lease.valid_for),
    }
}

/// What a node knows about a lock; nothing, where it is free.
pub(crate) fn inspected(
    (name, answer): (String, Result<Option<dlock_client::Inspection>, NodeError>),
) -> NodeInspection {
    match answer {
        Ok(lock) => NodeInspection { node: name, lock: lock.as_ref().map(inspection), error: None },
        Err(why) => NodeInspection { error: Some(error(&name, why)), node: name, lock: None },
    }
}

/// How many leases a node has ended.
pub(crate) fn broken((name, answer): (String, Result<u64, NodeError>)) -> NodeBreak {
    match answer {
        Ok(ended) => NodeBreak { node: name, ended: Some(arguments::fence(ended)), error: None },
        Err(why) => NodeBreak { error: Some(error(&name, why)), node: name, ended: None },
    }
}

pub(crate) fn notice(notice: &dlock_client::Notice) -> Notice {
    use dlock_client::Notice as Told;
    let number = |count: &usize| u32::try_from(*count).ok();
    let (event, message) = (notice.name().to_owned(), notice.to_string());
    let told = Notice { event, message, ..Notice::default() };
    match notice {
        Told::Stranger { node, before, now } => Notice {
            node: Some(node.clone()),
            before: Some(before.clone()),
            now: Some(now.clone()),
            ..told
        },
        Told::Promoted { node, server, quarantine } => Notice {
            node: Some(node.clone()),
            server: Some(server.clone()),
            quarantine: Some(millis(*quarantine)),
            ..told
        },
        Told::Outage { key: lock, needed, nodes: said } => Notice {
            key: Some(key(lock)),
            needed: number(needed),
            nodes: Some(nodes(said)),
            ..told
        },
        Told::NotReleased { key: lock, needed, of, left, within } => Notice {
            key: Some(key(lock)),
            needed: number(needed),
            of: number(of),
            left: Some(nodes(left)),
            within: Some(millis(*within)),
            ..told
        },
        Told::Back { key: lock } => Notice { key: Some(key(lock)), ..told },
        _ => told,
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
