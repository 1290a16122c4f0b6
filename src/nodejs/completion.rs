//! Outcomes as values of JavaScript.

use napi::Env;
use napi_derive::napi;

use crate::event_loop::OutcomeQueue;
use crate::failure::{self, Failure};
use crate::guard::Guard;
use crate::outcome::{Line, Outcome};
use crate::report::{self, Lease, NodeBreak, NodeInspection, Notice};

/// The outcome of work, for TypeScript.
#[napi(object, object_from_js = false)]
#[derive(Default)]
pub struct Completion {
    /// Id of the work; 0 for an event without a caller.
    pub id: u32,
    /// A lock that is held.
    pub guard: Option<Guard>,
    /// A lock without renewal here.
    pub lease: Option<Lease>,
    /// Each node's report about a lock.
    pub inspections: Option<Vec<NodeInspection>>,
    /// The number of leases that each node ended.
    pub breaks: Option<Vec<NodeBreak>>,
    /// The answer to a yes-or-no question.
    pub was: Option<bool>,
    /// A notice for an operator.
    pub notice: Option<Notice>,
    /// A log line.
    pub line: Option<Line>,
    /// An error.
    pub failure: Option<Failure>,
}

/// Returns all outcomes for an event loop.
#[napi(catch_unwind)]
pub fn collect(env: Env, queue: &OutcomeQueue) -> napi::Result<Vec<Completion>> {
    let arrived = queue.take().into_iter();
    arrived.map(|(id, outcome)| Ok(Completion { id, ..completion(env, outcome, queue)? })).collect()
}

fn completion(env: Env, outcome: Outcome, queue: &OutcomeQueue) -> napi::Result<Completion> {
    let empty = Completion::default();
    Ok(match outcome {
        Outcome::Acquired(guard, connected) => {
            let guard = Guard::new(env, guard, connected, queue.event_loop())?;
            Completion { guard: Some(guard), ..empty }
        }
        Outcome::Detached(lease) => {
            Completion { lease: lease.take().as_ref().map(report::lease), ..empty }
        }
        Outcome::Lease(lease) => Completion { lease: Some(report::lease(&lease)), ..empty },
        Outcome::Inspected(answers) => {
            let inspections = answers.into_iter().map(report::inspected).collect();
            Completion { inspections: Some(inspections), ..empty }
        }
        Outcome::Broken(answers) => {
            let breaks = answers.into_iter().map(report::broken).collect();
            Completion { breaks: Some(breaks), ..empty }
        }
        Outcome::Done => empty,
        Outcome::Flag(yes) => Completion { was: Some(yes), ..empty },
        Outcome::Notice(notice) => Completion { notice: Some(report::notice(&notice)), ..empty },
        Outcome::Line(line) => Completion { line: Some(line), ..empty },
        Outcome::Failed(error) => Completion { failure: Some(failure::of(error)), ..empty },
    })
}
