//! The outcomes for one event loop. They stay here until the loop collects them, and a call-back wakes it. A
//! grant that the loop never collects is dropped with the rest, which releases it.
//!
//! A worker thread has an event loop of its own, and so a post of its own. The end of that loop, for whatever
//! reason, releases its locks.

use std::collections::BTreeMap;
use std::future::Future;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak, mpsc};
use std::time::Duration;

use dlock_bindings::connected::Connected;
use dlock_bindings::held;
use dlock_client::Error;
use futures_util::future::join_all;
use napi::Env;
use napi::bindgen_prelude::Function;
use napi::threadsafe_function::{ThreadsafeFunction, ThreadsafeFunctionCallMode};
use napi_derive::napi;
use tokio::task::AbortHandle;

use crate::outcome::{Line, Outcome};

/// The outcomes for one event loop.
#[napi]
pub struct Post(Arc<Letters>);

/// The place of a held lock, until it is released.
pub(crate) type Place = Mutex<Option<dlock_client::Guard>>;

/// The event loop's wake-up. It does not keep the loop alive: TypeScript does that, for work that is awaited.
type Bell = ThreadsafeFunction<(), (), (), napi::Status, false, true>;

pub(crate) struct Letters {
    bell: Bell,
    inside: Mutex<Inside>,
}

/// The caller of some work.
#[derive(Clone)]
pub(crate) struct Asked {
    letters: Arc<Letters>,
    ticket: u32,
}

tokio::task_local! {
    /// The caller of the work that runs now.
    pub(crate) static ASKED: Asked;
}

#[derive(Default)]
struct Inside {
    arrived: Vec<(u32, Outcome)>,
    /// Number of log lines among them.
    lines: usize,
    under_way: BTreeMap<u32, AbortHandle>,
    /// Guards by address.
    guards: BTreeMap<usize, Weak<Place>>,
    clients: Vec<Weak<Connected>>,
    has_ended: bool,
}

#[napi]
impl Post {
    /// Makes a post that calls this function when an outcome has arrived.
    #[napi(constructor)]
    pub fn new(env: Env, bell: Function<'_, (), ()>) -> napi::Result<Post> {
        let bell = bell.build_threadsafe_function().weak::<true>().build()?;
        let letters = Arc::new(Letters { bell, inside: Mutex::default() });
        env.add_env_cleanup_hook(Arc::clone(&letters), |letters| letters.end())?;
        Ok(Post(letters))
    }

    /// Releases the locks of an event loop that ends. `process.exit` ends a loop without the hook of `new`,
    /// and ends a worker thread without an event in JavaScript.
    #[napi(catch_unwind)]
    pub fn end(&self) {
        self.0.end();
    }

    /// Cancels work. A lock that it has acquired is released.
    #[napi]
    pub fn cancel(&self, ticket: u32) {
        let task = self.0.inside().under_way.remove(&ticket);
        task.iter().for_each(AbortHandle::abort);
    }
}

impl Post {
    pub(crate) fn letters(&self) -> Arc<Letters> {
        Arc::clone(&self.0)
    }

    /// Takes all outcomes.
    pub(crate) fn take(&self) -> Vec<(u32, Outcome)> {
        let mut inside = self.0.inside();
        inside.lines = 0;
        mem::take(&mut inside.arrived)
    }
}

impl Letters {
    /// Carries this work out in the runtime, and posts the outcome. The work can be cancelled.
    pub(crate) fn run(
        self: &Arc<Self>,
        connected: &Arc<Connected>,
        ticket: u32,
        work: impl Future<Output = Result<Outcome, Error>> + Send + 'static,
    ) {
        // `cancel` and `end` wait for this mutex until the work is registered.
        let mut inside = self.inside();
        let (asked, client) = (Asked { letters: Arc::clone(self), ticket }, Arc::clone(connected));
        let task = ASKED.scope(asked.clone(), async move {
            let outcome = match client.caught(work).await {
                Ok(done) => done.unwrap_or_else(Outcome::Failed),
                Err(words) => Outcome::Panicked(words),
            };
            asked.letters.post(ticket, outcome);
        });
        let task = connected.runtime.spawn(task).abort_handle();
        inside.under_way.insert(ticket, task);
    }

    /// Posts an outcome. Ticket 0 is for events without a caller.
    pub(crate) fn post(&self, ticket: u32, outcome: Outcome) {
        let mut inside = self.inside();
        inside.under_way.remove(&ticket);
        self.put(inside, ticket, outcome);
    }

    /// Posts a log line. If the loop is blocked, lines beyond the limit are lost.
    pub(crate) fn tell_line(&self, line: Line) {
        let mut inside = self.inside();
        if inside.lines < MOST_LINES {
            inside.lines += 1;
            self.put(inside, 0, Outcome::Line(line));
        }
    }

    /// True if the event loop still collects.
    pub(crate) fn is_open(&self) -> bool {
        !self.inside().has_ended
    }

    fn put(&self, mut inside: MutexGuard<'_, Inside>, ticket: u32, outcome: Outcome) {
        if inside.has_ended {
            drop(inside);
            return drop(outcome);
        }
        let is_first = inside.arrived.is_empty();
        inside.arrived.push((ticket, outcome));
        drop(inside);
        if is_first {
            self.bell.call((), ThreadsafeFunctionCallMode::NonBlocking);
        }
    }

    pub(crate) fn remember(&self, place: &Arc<Place>) {
        self.inside().guards.insert(number(place), Arc::downgrade(place));
    }

    pub(crate) fn forget(&self, place: &Arc<Place>) {
        self.inside().guards.remove(&number(place));
    }

    pub(crate) fn remember_client(&self, client: &Arc<Connected>) {
        let clients = &mut self.inside().clients;
        clients.retain(|client| client.strong_count() > 0);
        clients.push(Arc::downgrade(client));
    }

    /// Releases the locks of an event loop that has ended, and waits a short time for the nodes' answers.
    fn end(&self) {
        let Inside { arrived, under_way, guards, clients, .. } =
            mem::replace(&mut *self.inside(), Inside { has_ended: true, ..Inside::default() });
        under_way.values().for_each(AbortHandle::abort);
        let clients: Vec<Arc<Connected>> = clients.iter().filter_map(Weak::upgrade).collect();
        drop(arrived);
        let held = guards.values().filter_map(Weak::upgrade);
        let guards =
            held.filter_map(|place| place.lock().unwrap_or_else(PoisonError::into_inner).take());
        guards.for_each(held::end);
        let Some(runtime) = clients.first().map(|client| client.runtime.clone()) else { return };
        let (done, heard) = mpsc::sync_channel(1);
        runtime.spawn(async move {
            // Aborted work ends at its next poll, which is now.
            tokio::task::yield_now().await;
            join_all(clients.iter().map(|connected| connected.client.close())).await;
            let _ = done.send(());
        });
        let _ = heard.recv_timeout(LONGEST_END);
    }

    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Asked {
    /// Posts an event of work that goes on to its caller.
    pub(crate) fn hear(&self, outcome: Outcome) {
        self.letters.put(self.letters.inside(), self.ticket, outcome);
    }
}

fn number(place: &Arc<Place>) -> usize {
    Arc::as_ptr(place).addr()
}

/// Limit of the wait at the end. A client ends its own wait before that, unless it was given a longer one.
const LONGEST_END: Duration = Duration::from_secs(10);
/// Limit of log lines that are not yet collected.
const MOST_LINES: usize = 1024;
