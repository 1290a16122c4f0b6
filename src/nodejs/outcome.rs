//! Outcomes of work, for an event loop that collects them.

use std::sync::Arc;

use dlock_bindings::failure::Failure;
use dlock_bindings::value::Value;
use dlock_client::Client;
use napi::Env;
use napi::bindgen_prelude::Object;
use napi_derive::napi;

use crate::event_loop::OutcomeQueue;
use crate::guard::Guard;
use crate::value::{failure, set};

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

/// Returns all outcomes for an event loop: objects of TypeScript's type `Completion`.
#[napi(catch_unwind)]
pub fn collect<'env>(env: &'env Env, queue: &OutcomeQueue) -> napi::Result<Vec<Object<'env>>> {
    let completion = |(id, outcome): (u32, Outcome)| {
        let mut object = Object::new(env)?;
        object.set("id", id)?;
        match outcome {
            Outcome::Acquired(guard, client) => {
                object.set("guard", Guard::new(guard, client, queue.event_loop()))?;
            }
            Outcome::Value(value) => set(env, &mut object, "value", value)?,
            Outcome::Failed(error) => object.set("failure", failure(env, error)?)?,
        }
        Ok(object)
    };
    queue.take().into_iter().map(completion).collect()
}
