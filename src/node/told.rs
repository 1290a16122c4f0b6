//! What has come of work, as values of JavaScript.

use napi_derive::napi;

use crate::arguments;
use crate::failure::{self, Failure};
use crate::guard::Guard;
use crate::outcome::{Line, Outcome};
use crate::post::Post;
use crate::report::{self, Lease, NodeBreak, NodeInspection, Notice};

/// How work ended, for TypeScript.
#[napi(object, object_from_js = false)]
#[derive(Default)]
pub struct Told {
    /// Which work; 0 for what nobody has asked for.
    pub ticket: u32,
    /// A lock that is held.
    pub guard: Option<Guard>,
    /// One that nobody here renews.
    pub lease: Option<Lease>,
    /// What each node knows about a lock.
    pub inspections: Option<Vec<NodeInspection>>,
    /// How many leases each node has ended.
    pub breaks: Option<Vec<NodeBreak>>,
    /// Whether it was so.
    pub was: Option<bool>,
    /// Something that an operator should know.
    pub notice: Option<Notice>,
    /// Something that has happened.
    pub line: Option<Line>,
    /// A wait begins: what for.
    pub waits_for: Option<String>,
    /// A wait has ended, after so many milliseconds.
    pub waited: Option<f64>,
    /// What went wrong.
    pub failure: Option<Failure>,
}

/// What has arrived for an event loop.
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
