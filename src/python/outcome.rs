//! Outcomes of work.

use std::sync::Arc;

use dlock_bindings::failure::Failure;
use dlock_bindings::lease::PendingLease;
use dlock_client::{Guard, Inspection, Lease, Notice};

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
    Detached(PendingLease),
    Done,
    Flag(bool),
    Lease(Lease),
    Inspected(Answers<Option<Inspection>>),
    Broken(Answers<u64>),
    Notice(Notice),
    Failed(Failure),
}
