//! What can come of work, for whoever collects it.

use std::sync::Arc;
use std::time::Duration;

use dlock_bindings::connected::Connected;
use dlock_bindings::lease::Unheard;
use dlock_client::{Error, Guard, Inspection, Lease, NodeError, Notice};
use napi_derive::napi;

/// What has come of work, or happens meanwhile. Dropping one with a lock releases that.
pub(crate) enum Outcome {
    Acquired(Guard, Arc<Connected>),
    Detached(Unheard),
    Extended(Lease),
    Inspected(Vec<(String, Result<Option<Inspection>, NodeError>)>),
    Broken(Vec<(String, Result<u64, NodeError>)>),
    Done,
    Was(bool),
    Noticed(Notice),
    Line(Line),
    Waits(String),
    Waited(Duration),
    Failed(Error),
    Panicked(String),
}

/// Something that has happened.
#[napi(object, object_from_js = false)]
#[derive(Clone)]
pub struct Line {
    /// `error`, `warn`, `info` or `debug`.
    pub level: String,
    /// What has happened.
    pub message: String,
    /// To what, and how: names and values.
    pub fields: Vec<Vec<String>>,
    /// When, in milliseconds since 1970.
    pub time: f64,
    /// The lines of this process are printed here, and in no other thread.
    pub prints: bool,
}
