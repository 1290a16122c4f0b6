//! The outcomes for one event loop. They stay here until the loop collects them, and a call-back wakes it. A
//! grant that the loop does not collect is dropped with the rest, which releases it.
//!
//! A worker thread has an event loop of its own, and so a queue of its own. Every end of that loop releases its
//! locks.

use std::collections::BTreeMap;
use std::future::Future;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use dlock_bindings::exit::{self, LONGEST_END};
use dlock_bindings::failure::Failure;
use dlock_bindings::value::{Record, Value};
use dlock_client::{Client, Error};
use napi::Env;
use napi::bindgen_prelude::Function;
use napi::threadsafe_function::{ThreadsafeFunction, ThreadsafeFunctionCallMode};
use napi_derive::napi;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use crate::outcome::Outcome;
use crate::runtime;

/// The queue of outcomes for one event loop.
#[napi]
pub struct OutcomeQueue(Arc<EventLoop>);

/// The event loop's wake-up. The loop may end meanwhile, unless TypeScript awaits some work.
type WakeUp = ThreadsafeFunction<(), (), (), napi::Status, false, true>;

/// An event loop: its outcomes, and the work, locks and clients that end with it.
pub(crate) struct EventLoop {
    wake_up: WakeUp,
    pub(crate) runtime: Handle,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    arrived: Vec<(u32, Outcome)>,
    /// Number of log lines among them.
    lines: usize,
    under_way: BTreeMap<u32, AbortHandle>,
    clients: Vec<Weak<Client>>,
    has_ended: bool,
}

#[napi]
impl OutcomeQueue {
    /// Makes a queue that calls this function when an outcome has arrived.
    #[napi(constructor)]
    pub fn new(env: Env, wake_up: Function<'_, (), ()>) -> napi::Result<OutcomeQueue> {
        let wake_up = wake_up.build_threadsafe_function().weak::<true>().build()?;
        let event_loop =
            Arc::new(EventLoop { wake_up, runtime: runtime::current()?, state: Mutex::default() });
        env.add_env_cleanup_hook(Arc::clone(&event_loop), |event_loop| event_loop.end())?;
        Ok(OutcomeQueue(event_loop))
    }

    /// Releases the locks of an event loop that ends. `process.exit` ends a loop without the hook of `new`,
    /// and ends a worker thread without an event in JavaScript.
    #[napi(catch_unwind)]
    pub fn end(&self) {
        self.0.end();
    }

    /// Cancels work. A lock that it has acquired is released.
    #[napi]
    pub fn cancel(&self, id: u32) {
        let task = self.0.state().under_way.remove(&id);
        task.iter().for_each(AbortHandle::abort);
    }
}

impl OutcomeQueue {
    pub(crate) fn event_loop(&self) -> Arc<EventLoop> {
        Arc::clone(&self.0)
    }

    /// Takes all outcomes.
    pub(crate) fn take(&self) -> Vec<(u32, Outcome)> {
        let mut state = self.0.state();
        state.lines = 0;
        mem::take(&mut state.arrived)
    }
}

impl EventLoop {
    /// Carries this work out in the runtime, and queues the outcome. The work can be cancelled.
    pub(crate) fn run(
        self: &Arc<Self>,
        id: u32,
        work: impl Future<Output = Result<impl Into<Outcome> + Send, Error>> + Send + 'static,
    ) {
        // `cancel` and `end` wait for this mutex until the work is registered.
        let mut state = self.state();
        let event_loop = Arc::clone(self);
        let task = async move {
            let outcome = Failure::caught(work).await.map_or_else(Outcome::Failed, Into::into);
            event_loop.push(id, outcome);
        };
        let task = self.runtime.spawn(task).abort_handle();
        state.under_way.insert(id, task);
    }

    /// Queues an outcome. Id 0 is for log lines.
    pub(crate) fn push(&self, id: u32, outcome: Outcome) {
        let mut state = self.state();
        state.under_way.remove(&id);
        self.enqueue(state, id, outcome);
    }

    /// Queues a log line. If the loop is blocked, lines beyond the limit are lost.
    pub(crate) fn push_line(&self, line: Record) {
        let mut state = self.state();
        if state.lines < MOST_LINES {
            state.lines += 1;
            self.enqueue(state, 0, Value::from(line).into());
        }
    }

    fn enqueue(&self, mut state: MutexGuard<'_, State>, id: u32, outcome: Outcome) {
        if state.has_ended {
            drop(state);
            return drop(outcome);
        }
        let is_first = state.arrived.is_empty();
        state.arrived.push((id, outcome));
        drop(state);
        if is_first {
            self.wake_up.call((), ThreadsafeFunctionCallMode::NonBlocking);
        }
    }

    pub(crate) fn remember_client(&self, client: &Arc<Client>) {
        let clients = &mut self.state().clients;
        clients.retain(|client| client.strong_count() > 0);
        clients.push(Arc::downgrade(client));
    }

    /// Releases the locks of an event loop that has ended, and waits a short time for the nodes' answers.
    fn end(&self) {
        let State { arrived, under_way, clients, .. } =
            mem::replace(&mut *self.state(), State { has_ended: true, ..State::default() });
        under_way.values().for_each(AbortHandle::abort);
        drop(arrived);
        let clients = clients.iter().filter_map(Weak::upgrade);
        let clients: Vec<Client> = clients.map(|client| (*client).clone()).collect();
        if clients.is_empty() {
            return;
        }
        let _ = exit::end(&self.runtime, clients).recv_timeout(LONGEST_END);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Limit of log lines that are not yet collected.
const MOST_LINES: usize = 1024;
