//! What can come of work, for a loop that collects it.

use std::sync::Arc;
use std::time::Duration;

use dlock_bindings::lease::Unheard;
use dlock_client::{Error, Guard};

use crate::local::Local;

/// What has come of work. Dropping one with a lock releases that.
pub(crate) enum Outcome {
    Acquired(Guard, Arc<Local>),
    Leased(Unheard),
    Done,
    Was(bool),
    Length(Duration),
    /// Whether anybody holds a lock, and the fences of the holders.
    Holders((bool, Vec<u64>)),
    Failed(Error),
    Panicked(String),
}
