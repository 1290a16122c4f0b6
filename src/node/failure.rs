//! Errors as values of JavaScript.

use dlock_bindings::words;
use dlock_client::{Error, Key, Loss, Report};
use napi::bindgen_prelude::{Buffer, Either};
use napi_derive::napi;

use crate::arguments;
use crate::report::{self, Holder, NodeReport};

/// An error. TypeScript chooses its class.
#[napi(object, object_from_js = false)]
#[derive(Default)]
pub struct Failure {
    /// Code for programs, as in `dlock --json`.
    pub code: String,
    /// Text for people.
    pub message: String,
    /// The lock.
    pub key: Option<Either<String, Buffer>>,
    /// The state of each node.
    pub nodes: Vec<NodeReport>,
    /// Milliseconds until it makes sense to ask again.
    pub retry_after: Option<f64>,
    /// The holder of the lock.
    pub holder: Option<Holder>,
    /// Fence of a lost lock.
    pub fence: Option<f64>,
    /// Reason of the loss.
    pub why: Option<String>,
}

/// Converts an error of the library.
pub(crate) fn of(error: &Error) -> Failure {
    if let Error::Lost(loss) = error {
        return lost(loss);
    }
    let holder = match error {
        Error::Held { holder, .. } => holder.as_deref().map(report::holder),
        _ => None,
    };
    let retry_after = error.retry_after().map(arguments::millis);
    let failure = failure(error.code(), error.to_string(), error.key(), error.nodes());
    Failure { holder, retry_after, ..failure }
}

/// Converts a loss.
pub(crate) fn lost(loss: &Loss) -> Failure {
    let why = loss.why.name();
    loss_of(loss.to_string(), &loss.key, loss.fence, why, loss.why.nodes())
}

/// The error of a lock whose client has panicked.
pub(crate) fn broken(key: &Key, fence: u64) -> Failure {
    loss_of(words::broken(key, fence), key, fence, "panicked", &[])
}

/// The error for a panic.
pub(crate) fn defect(words: &str) -> Failure {
    failure("internal", words::defect(words), None, &[])
}

fn loss_of(message: String, key: &Key, fence: u64, why: &str, nodes: &[Report]) -> Failure {
    let (fence, why) = (Some(arguments::fence(fence)), Some(why.to_owned()));
    Failure { fence, why, ..failure("lost", message, Some(key), nodes) }
}

fn failure(code: &str, message: String, key: Option<&Key>, nodes: &[Report]) -> Failure {
    let (key, nodes) = (key.map(report::key), report::nodes(nodes));
    Failure { code: code.to_owned(), message, key, nodes, ..Failure::default() }
}
