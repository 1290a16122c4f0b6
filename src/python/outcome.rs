//! Outcomes of work, for an event loop that collects them.

use std::sync::Arc;

use dlock_bindings::lease::Unheard;
use dlock_client::{Error, Guard, Inspection, Lease, Notice};

use crate::local::{Local, UnderWay};
use crate::report::Answers;

/// A held lock that Python has not received yet. Dropping this releases it.
pub(crate) struct Acquired {
    pub(crate) guard: Guard,
    pub(crate) local: Arc<Local>,
    pub(crate) under_way: UnderWay,
}

/// The outcome of work. Dropping one with a lock releases the lock.
pub(crate) enum Outcome {
    Acquired(Acquired),
    Detached(Unheard),
    Done,
    Was(bool),
    Told(Lease),
    Inspected(Answers<Option<Inspection>>),
    Broken(Answers<u64>),
    Noticed(Notice),
    Failed(Error),
    Panicked(String),
}
