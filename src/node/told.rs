//! Outcomes as values of JavaScript.

use napi_derive::napi;

use crate::arguments;
use crate::failure::{self, Failure};
use crate::guard::Guard;
use crate::outcome::{Line, Outcome};
use crate::post::Post;
use crate::report::{self, Lease, NodeBreak, NodeInspection, Notice};

/// The outcome of work, for TypeScript.
#[napi(object, object_from_js = false)]
#[derive(Default)]
pub struct Told {
    /// Ticket of the work; 0 for an event without a caller.
    pub ticket: u32,
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
    /// A wait begins: the holders in its way.
    pub waits_for: Option<String>,
    /// A wait has ended: its length in milliseconds.
    pub waited: Option<f64>,
    /// An error.
    pub failure: Option<Failure>,
}

/// Returns all outcomes for an event loop.
#[napi(catch_unwind)]
pub fn collect(post: &Post) -> Vec<Told> {
    let arrived = post.take().into_iter();
    arrived.map(|(ticket, outcome)| Told { ticket, ..told(outcome, post) }).collect()
}

fn told(outcome: Outcome, post: &Post) -> Told {
    let told = Told::default();
    match outcome {
        Outcome::Acquired(guard, connected) => {
            Told { guard: Some(Guard::new(guard, connected, post.letters())), ..told }
        }
        Outcome::Detached(unheard) => {
            Told { lease: unheard.hear().as_ref().map(report::lease), ..told }
        }
        Outcome::Extended(lease) => Told { lease: Some(report::lease(&lease)), ..told },
        Outcome::Inspected(answers) => {
            let inspections = answers.into_iter().map(report::inspected).collect();
            Told { inspections: Some(inspections), ..told }
        }
        Outcome::Broken(answers) => {
            let breaks = answers.into_iter().map(report::broken).collect();
            Told { breaks: Some(breaks), ..told }
        }
        Outcome::Done => told,
        Outcome::Was(yes) => Told { was: Some(yes), ..told },
        Outcome::Noticed(notice) => Told { notice: Some(report::notice(&notice)), ..told },
        Outcome::Line(line) => Told { line: Some(line), ..told },
        Outcome::Waits(waits_for) => Told { waits_for: Some(waits_for), ..told },
        Outcome::Waited(after) => Told { waited: Some(arguments::millis(after)), ..told },
        Outcome::Failed(error) => Told { failure: Some(failure::of(&error)), ..told },
        Outcome::Panicked(words) => Told { failure: Some(failure::defect(&words)), ..told },
    }
}
