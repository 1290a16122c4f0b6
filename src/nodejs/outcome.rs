//! Outcomes of work, for an event loop that collects them.

use std::sync::Arc;

use dlock_bindings::failure::Failure;
use dlock_bindings::value::Value;
use dlock_client::Client;

/// The outcome of work, or an event. Dropping one with a lock releases the lock.
pub(crate) enum Outcome {
    Acquired(dlock_client::Guard, Arc<Client>),
    Value(Value),
    Failed(Failure),
}

impl<T> From<T> for Outcome
where
    Value: From<T>,
{
    fn from(value: T) -> Outcome {
        Outcome::Value(value.into())
    }
}
