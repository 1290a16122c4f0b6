//! Outcomes of work, for an event loop that collects them.

use std::sync::Arc;

use dlock_bindings::connected::Connected;
use dlock_bindings::failure::Failure;
use dlock_bindings::lease::PendingLease;
use dlock_client::{Guard, Inspection, Lease, NodeError, Notice};
use napi_derive::napi;

/// The outcome of work, or an event. Dropping one with a lock releases the lock.
pub(crate) enum Outcome {
    Acquired(Guard, Arc<Connected>),
    Detached(PendingLease),
    Lease(Lease),
    Inspected(Vec<(String, Result<Option<Inspection>, NodeError>)>),
    Broken(Vec<(String, Result<u64, NodeError>)>),
    Done,
    Flag(bool),
    Notice(Notice),
    Line(Line),
    Failed(Failure),
}

/// A log line.
#[napi(object, object_from_js = false)]
#[derive(Clone)]
pub struct Line {
    /// `error`, `warn`, `info` or `debug`.
    pub level: String,
    /// Message of the line.
    pub message: String,
    /// Names and values.
    pub fields: Vec<Vec<String>>,
    /// Time, in milliseconds since 1970.
    pub time: f64,
}
