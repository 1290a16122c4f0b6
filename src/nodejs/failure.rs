//! Errors as values of JavaScript.

use dlock_bindings::failure;
use napi::bindgen_prelude::{Buffer, Either};
use napi_derive::napi;

use crate::arguments;
use crate::report::{self, Done, Holder, NodeReport};

/// An error. TypeScript chooses its class.
#[napi(object, object_from_js = false)]
pub struct Failure {
    /// Code for programs, as in `dlock --json`.
    pub code: String,
    /// Text for people.
    pub message: String,
    /// The lock.
    pub key: Option<Either<String, Buffer>>,
    /// The state of each node.
    pub nodes: Vec<NodeReport>,
    /// Milliseconds until a retry can succeed.
    pub retry_after: Option<f64>,
    /// The holder of the lock.
    pub holder: Option<Holder>,
    /// Milliseconds until the lock is free.
    pub left: Option<f64>,
    /// The holder that has left the lock done.
    pub by: Option<Done>,
    /// Fence of a lost lock, or of the holder that has left it done.
    pub fence: Option<f64>,
    /// Reason of the loss.
    pub why: Option<String>,
}

/// Converts an error of the library.
pub(crate) fn of(failure: impl Into<failure::Failure>) -> Failure {
    let failure = failure.into();
    Failure {
        code: failure.code.to_owned(),
        message: failure.message,
        key: failure.key.as_ref().map(report::key),
        nodes: report::nodes(&failure.nodes),
        retry_after: failure.retry_after.map(arguments::millis),
        holder: failure.holder.as_deref().map(report::holder),
        left: failure.left.map(arguments::millis),
        by: failure.done.as_deref().map(report::done),
        fence: failure.fence.map(arguments::fence),
        why: failure.why.map(str::to_owned),
    }
}
