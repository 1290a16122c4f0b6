//! What an error tells, as values of JavaScript.

use dlock_bindings::words::{self, About};
use dlock_client::{Error, HolderInfo, Key, Loss, Report};
use napi::bindgen_prelude::{Buffer, Either};
use napi_derive::napi;

use crate::arguments;

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

/// An error of the library.
pub(crate) fn of(error: &Error) -> Failure {
    if let Error::Lost(loss) = error {
        return lost(loss);
    }
    let About { code, key, nodes } = words::about(error);
    let holder = match error {
        Error::Held { holder, .. } => holder.as_deref().map(info),
        _ => None,
    };
    let retry_after = error.retry_after().map(arguments::millis);
    Failure { holder, retry_after, ..failure(code, error.to_string(), key, nodes) }
}

/// A loss.
pub(crate) fn lost(loss: &Loss) -> Failure {
    let why = loss.why.name();
    loss_of(loss.to_string(), &loss.key, loss.fence, why, words::reports(loss))
}

/// After a panic nothing is certain.
pub(crate) fn broken(key: &Key, fence: u64) -> Failure {
    loss_of(words::broken(key, fence), key, fence, "panicked", &[])
}

/// A panic.
pub(crate) fn defect(words: &str) -> Failure {
    failure("internal", words::defect(words), None, &[])
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
