//! What has come of work, as values of JavaScript.

use napi::bindgen_prelude::Either;
use napi_derive::napi;

use crate::arguments;
use crate::failure::{self, Failure};
use crate::guard::Guard;
use crate::lease::Lease;
use crate::outcome::{Line, Outcome};
use crate::post::Post;

/// How work ended, for TypeScript.
#[napi(object, object_from_js = false)]
#[derive(Default)]
pub struct Told {
    /// Which work; 0 for what nobody has asked for.
    pub ticket: u32,
    /// A lock that is held.
    pub guard: Option<Guard>,
    /// One that nobody renews.
    pub lease: Option<Lease>,
    /// A number of milliseconds, or whether it was so.
    pub value: Option<Either<bool, f64>>,
    /// Something that an operator should know.
    pub notice: Option<String>,
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
        Outcome::Leased(unheard) => Told { lease: Lease::hear(unheard, post.letters()), ..told },
        Outcome::Done => told,
        Outcome::Was(yes) => Told { value: Some(Either::A(yes)), ..told },
        Outcome::Length(length) => {
            Told { value: Some(Either::B(arguments::millis(length))), ..told }
        }
        Outcome::Noticed(notice) => Told { notice: Some(notice.to_string()), ..told },
        Outcome::Line(line) => Told { line: Some(line), ..told },
        Outcome::Waits(waits_for) => Told { waits_for: Some(waits_for), ..told },
        Outcome::Waited(after) => Told { waited: Some(arguments::millis(after)), ..told },
        Outcome::Failed(error) => Told { failure: Some(failure::of(&error)), ..told },
        Outcome::Panicked(words) => Told { failure: Some(failure::defect(&words)), ..told },
    }
}
