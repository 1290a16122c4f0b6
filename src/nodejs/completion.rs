//! Outcomes as values of JavaScript.

use napi::Env;
use napi::bindgen_prelude::Object;
use napi_derive::napi;

use crate::event_loop::OutcomeQueue;
use crate::guard::Guard;
use crate::outcome::Outcome;
use crate::value::{failure, set};

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
