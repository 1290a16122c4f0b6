//! What can come out, as values of JavaScript.

use std::sync::Arc;
use std::time::Duration;

use dlock_client::{Error, HolderInfo, Key, Loss, LossReason, Notice, Report};
use napi::bindgen_prelude::{Buffer, Either};
use napi_derive::napi;

use crate::arguments;
use crate::client::Connected;
use crate::guard::Guard;
use crate::lease::{Lease, Unheard};
use crate::post::Letters;

/// How work ended. Dropping one with a guard releases that.
pub(crate) enum Outcome {
    Acquired(dlock_client::Guard, Arc<Connected>),
    Leased(Unheard),
    Done,
    Was(bool),
    Length(Duration),
    Noticed(Notice),
    Failed(Error),
    Panicked(String),
}

/// How work ended, for TypeScript.
#[napi(object, object_from_js = false)]
#[derive(Default)]
pub struct Told {
    /// Which work; 0 for what nobody has asked for.
    pub ticket: u32,
    /// A lock that is held.
    pub guard: Option<Guard>,
    /// One that nobody renews.
    pub lease: Option<Lease>,
    /// A number of milliseconds, or whether it was so.
    pub value: Option<Either<bool, f64>>,
    /// Something that an operator should know.
    pub notice: Option<String>,
    /// What went wrong.
    pub failure: Option<Failure>,
}

/// What an error tells. The class is chosen in TypeScript.
#[napi(object, object_from_js = false)]
#[derive(Default)]
pub struct Failure {
    /// A word for programs, as `dlock --json` gives it.
    pub code: String,
    /// The words of the program.
    pub message: String,
    /// The lock.
    pub key: Option<Either<String, Buffer>>,
    /// What each node said.
    pub nodes: Vec<NodeReport>,
    /// In how many milliseconds it makes sense to ask again.
    pub retry_after: Option<f64>,
    /// Who holds the lock.
    pub holder: Option<Holder>,
    /// The fence of a lock that was lost.
    pub fence: Option<f64>,
    /// Why it was lost.
    pub why: Option<String>,
}

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
    /// For how many milliseconds it has held the lock.
    pub held: f64,
    /// For how many its lease still runs.
    pub ttl: f64,
    /// Where its connection comes from.
    pub address: Option<String>,
    /// The number of its connection in CLIENT LIST.
    pub client: Option<f64>,
    /// What it says about itself.
    pub meta: Either<String, Buffer>,
}

impl Outcome {
    pub(crate) fn tell(self, ticket: u32, letters: &Arc<Letters>) -> Told {
        let told = Told { ticket, ..Told::default() };
        match self {
            Outcome::Acquired(guard, connected) => {
                Told { guard: Some(Guard::new(guard, connected, letters)), ..told }
            }
            Outcome::Leased(unheard) => Told { lease: unheard.tell(), ..told },
            Outcome::Done => told,
            Outcome::Was(yes) => Told { value: Some(Either::A(yes)), ..told },
            Outcome::Length(length) => {
                Told { value: Some(Either::B(arguments::millis(length))), ..told }
            }
            Outcome::Noticed(notice) => Told { notice: Some(notice.to_string()), ..told },
            Outcome::Failed(error) => Told { failure: Some(failed(&error)), ..told },
            Outcome::Panicked(words) => Told { failure: Some(panicked(&words)), ..told },
        }
    }
}

/// An error of the library.
pub(crate) fn failed(error: &Error) -> Failure {
    let (code, key, nodes) = match error {
        Error::Lost(loss) => return lost(loss),
        Error::Held { key, nodes, .. } => ("held", Some(key), nodes.as_slice()),
        Error::NoQuorum { key, nodes, .. } => ("no_quorum", Some(key), nodes.as_slice()),
        Error::Refused { key, nodes } => ("refused", Some(key), nodes.as_slice()),
        Error::Connect { nodes, .. } => ("no_quorum", None, nodes.as_slice()),
        Error::Usage(_) | Error::Duplicate { .. } => ("usage", None, [].as_slice()),
        _ => ("internal", None, [].as_slice()),
    };
    let holder = match error {
        Error::Held { holder, .. } => holder.as_deref().map(info),
        _ => None,
    };
    let retry_after = error.retry_after().map(arguments::millis);
    Failure { holder, retry_after, ..failure(code, error.to_string(), key, nodes) }
}

/// A loss.
pub(crate) fn lost(loss: &Loss) -> Failure {
    let nodes = match &loss.why {
        LossReason::NotRenewed { nodes } | LossReason::Ended { nodes } => nodes.as_slice(),
        _ => &[],
    };
    loss_of(loss.to_string(), &loss.key, loss.fence, loss.why.name(), nodes)
}

/// After a panic nothing is certain.
pub(crate) fn broken(key: &Key, fence: u64) -> Failure {
    let text = format!("lock {key:?} (fence {fence}) counts as lost: its client has panicked");
    loss_of(text, key, fence, "panicked", &[])
}

fn panicked(words: &str) -> Failure {
    failure("internal", format!("a defect of dlock, please report it: {words}"), None, &[])
}

fn loss_of(message: String, key: &Key, fence: u64, why: &str, nodes: &[Report]) -> Failure {
    let (fence, why) = (Some(arguments::fence(fence)), Some(why.to_owned()));
    Failure { fence, why, ..failure("lost", message, Some(key), nodes) }
}

fn failure(code: &str, message: String, key: Option<&Key>, nodes: &[Report]) -> Failure {
    let report = |Report { node, state }: &Report| {
        let (state, message) = (state.name().to_owned(), state.to_string());
        NodeReport { node: node.clone(), state, message }
    };
    let nodes = nodes.iter().map(report).collect();
    let key = key.map(arguments::shown);
    Failure { code: code.to_owned(), message, key, nodes, ..Failure::default() }
}

fn info(holder: &HolderInfo) -> Holder {
    Holder {
        fence: arguments::fence(holder.fence),
        held: arguments::millis(holder.held),
        ttl: arguments::millis(holder.ttl),
        address: holder.address.clone(),
        client: holder.client.map(arguments::fence),
        meta: arguments::bytes(&holder.meta),
    }
}
