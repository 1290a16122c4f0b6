//! The checkers, and their verdicts. Each searches for an order of all steps. In it each step happens between
//! its request and its answer, and follows from those before it.

use std::collections::BTreeMap;
use std::fmt;
use std::fmt::Debug;
use std::hash::Hash;
use std::io;
use std::marker::PhantomData;
use std::path::Path;
use std::time::Duration;

use porcupine_rs::{CheckResult, Operation};
use todc_utils::{Action, Specification, WGLChecker};

use crate::data::{self, Register};
use crate::history::{Asked, Line};
use crate::lock::{self, Lock};

/// A thing that changes by steps. Some steps cannot follow others.
pub trait Object: Clone + Debug + Send + Sync + 'static {
    /// Its state.
    type State: Clone + Debug + Hash + Eq + Send + Sync;
    /// A step.
    type Step: Clone + Debug + Send + Sync;

    /// The state before all steps.
    fn start() -> Self::State;

    /// The state after a step, if it can follow.
    fn take(state: &Self::State, step: &Self::Step) -> Option<Self::State>;
}

/// A step that happened between these times, if it happened.
#[derive(Clone, Debug)]
pub struct Call<S> {
    /// The step.
    pub step: S,
    /// Not before.
    pub from: u64,
    /// Not after.
    pub to: u64,
}

/// A promise that a history cannot have kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accusation {
    /// The lock, or the data.
    pub key: String,
    /// The promise.
    pub promise: Promise,
    /// The number of steps among which no order was found.
    pub steps: usize,
}

/// The promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Promise {
    /// An exclusive holder is alone, and a lock has no more holders than permits.
    Exclusion,
    /// In the order of the holds fences grow.
    Fences,
    /// No write comes between another holder's read and write.
    Data,
}

/// A checker had not ended in time.
const LONGEST: Duration = Duration::from_secs(60);
/// The second checker takes more than twice as long for twice as many steps.
const FEW: usize = 3_000;

/// Everything that cannot be true.
///
/// # Panics
/// Panics when the checkers do not agree, or have no result in a minute: then there is no verdict.
pub fn judge(lines: &[Line]) -> Vec<Accusation> {
    let mut accused = Vec::new();
    for (key, lines) in by_key(lines) {
        let mut hold = |promise, steps: usize, is_kept: bool| {
            if !is_kept {
                accused.push(Accusation { key: key.to_owned(), promise, steps });
            }
            is_kept
        };
        let calls = lock::calls(&lines, false);
        if hold(Promise::Exclusion, calls.len(), is_possible::<Lock>(&calls)) {
            let calls = lock::calls(&lines, true);
            hold(Promise::Fences, calls.len(), is_possible::<Lock>(&calls));
        }
        let calls = data::calls(&lines);
        hold(Promise::Data, calls.len(), is_possible::<Register>(&calls));
    }
    accused
}

/// Draws what the first checker tried, as a page for a browser.
///
/// # Errors
/// Fails when the page cannot be written.
pub fn draw(lines: &[Line], accused: &Accusation, page: &Path) -> io::Result<()> {
    let keys = by_key(lines);
    let lines = keys.get(&accused.key[..]).map_or(&[][..], |lines| lines);
    match accused.promise {
        Promise::Data => draw_calls::<Register>(&data::calls(lines), page),
        promise => draw_calls::<Lock>(&lock::calls(lines, promise == Promise::Fences), page),
    }
}

fn by_key(lines: &[Line]) -> BTreeMap<&str, Vec<&Line>> {
    let mut keys: BTreeMap<&str, Vec<&Line>> = BTreeMap::new();
    for line in lines {
        keys.entry(&line.key).or_default().push(line);
    }
    keys
}

/// True if there is such an order.
///
/// # Panics
/// Panics when the checkers do not agree, or have no result in time.
pub fn is_possible<O: Object>(calls: &[Call<O::Step>]) -> bool {
    let verdict = porcupine_rs::check_operations_timeout(&operations::<O>(calls), LONGEST);
    let first = match verdict {
        CheckResult::Ok => true,
        CheckResult::Illegal => false,
        CheckResult::Unknown => panic!("no verdict on {} steps in {LONGEST:?}", calls.len()),
    };
    if !calls.is_empty() && calls.len() <= FEW {
        let second = WGLChecker::<Rules<O>>::is_linearizable(history(calls));
        assert_eq!(first, second, "porcupine-rs and todc-utils do not agree on {calls:#?}");
    }
    first
}

/// The rules of an object, in each checker's form.
#[derive(Clone, Debug)]
struct Rules<O>(PhantomData<O>);

impl<O: Object> porcupine_rs::Model for Rules<O> {
    type State = O::State;
    type Op = O::Step;
    type Metadata = ();

    fn init() -> O::State {
        O::start()
    }

    fn step(state: &O::State, step: &O::Step) -> (bool, O::State) {
        answer::<O>(state, step)
    }
}

impl<O: Object> Specification for Rules<O> {
    type State = O::State;
    type Operation = O::Step;

    fn init() -> O::State {
        O::start()
    }

    fn apply(step: &O::Step, state: &O::State) -> (bool, O::State) {
        answer::<O>(state, step)
    }
}

fn answer<O: Object>(state: &O::State, step: &O::Step) -> (bool, O::State) {
    let after = O::take(state, step);
    (after.is_some(), after.unwrap_or_else(|| state.clone()))
}

fn operations<O: Object>(calls: &[Call<O::Step>]) -> Vec<Operation<Rules<O>>> {
    let time = |at| i64::try_from(at).unwrap_or(i64::MAX);
    let operation = |call: &Call<O::Step>| Operation {
        client_id: None,
        call_time: time(call.from),
        return_time: time(call.to),
        op: call.step.clone(),
        metadata: None,
    };
    calls.iter().map(operation).collect()
}

/// The same for the other checker. It needs all requests and answers in order: of those at the same time the
/// requests come first.
fn history<S: Clone>(calls: &[Call<S>]) -> todc_utils::History<S> {
    let mut order: Vec<(u64, bool, usize)> = Vec::new();
    for (place, call) in calls.iter().enumerate() {
        order.extend([(call.from, false, place), (call.to, true, place)]);
    }
    order.sort_unstable();
    let action = |(_, is_answer, place): (u64, bool, usize)| {
        let step = calls[place].step.clone();
        (place, if is_answer { Action::Response(step) } else { Action::Call(step) })
    };
    todc_utils::History::from_actions(order.into_iter().map(action).collect())
}

fn draw_calls<O: Object>(calls: &[Call<O::Step>], page: &Path) -> io::Result<()> {
    let (_, found) = porcupine_rs::check_operations_info_timeout(&operations::<O>(calls), LONGEST);
    porcupine_rs::visualize_path::<Rules<O>>(&found, page)
}

impl fmt::Display for Accusation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Accusation { key, promise, steps } = self;
        let what = match promise {
            Promise::Exclusion => "the holders exclude each other",
            Promise::Fences => "fences grow",
            Promise::Data => "each change follows from the one before",
        };
        write!(f, "{key}: no order of {steps} steps in which {what}")
    }
}

/// The number of locks and data in a history.
#[must_use]
pub fn keys(lines: &[Line]) -> usize {
    by_key(lines).len()
}

/// The number of holds.
#[must_use]
pub fn holds(lines: &[Line]) -> usize {
    lines.iter().filter(|line| matches!(line.asked, Asked::Acquire { until: Some(_), .. })).count()
}
