//! The outcomes for one event loop. They lie here until the loop collects them, and a bell tells it to: so
//! a grant that the loop does not hear of any more is dropped with the rest, which releases it.
//!
//! A worker thread has an event loop of its own, and so a post of its own. Where that loop ends, however it
//! ends, what it holds is released.

use std::collections::BTreeMap;
use std::future::Future;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak, mpsc};
use std::time::Duration;

use futures_util::future::join_all;
use napi::Env;
use napi::bindgen_prelude::Function;
use napi::threadsafe_function::{ThreadsafeFunction, ThreadsafeFunctionCallMode};
use napi_derive::napi;
use tokio::task::AbortHandle;

use crate::client::Connected;
use crate::guard::Place;
use crate::outcome::{Outcome, Told};
use crate::runtime;

/// The outcomes for one event loop.
#[napi]
pub struct Post(Arc<Letters>);

/// It does not keep the loop alive: what is awaited does, in TypeScript.
type Bell = ThreadsafeFunction<(), (), (), napi::Status, false, true>;

pub(crate) struct Letters {
    bell: Bell,
    inside: Mutex<Inside>,
}

#[derive(Default)]
struct Inside {
    arrived: Vec<(u32, Outcome)>,
    under_way: BTreeMap<u32, AbortHandle>,
    /// Guards by where they are in memory.
    guards: BTreeMap<usize, Weak<Place>>,
    clients: Vec<Weak<Connected>>,
    has_ended: bool,
}

#[napi]
impl Post {
    /// Rings the bell, which is this function, when something has arrived.
    #[napi(constructor)]
    pub fn new(env: Env, bell: Function<'_, (), ()>) -> napi::Result<Post> {
        let bell = bell.build_threadsafe_function().weak::<true>().build()?;
        let letters = Arc::new(Letters { bell, inside: Mutex::default() });
        env.add_env_cleanup_hook(Arc::clone(&letters), |letters| letters.end())?;
        Ok(Post(letters))
    }

    /// What has arrived.
    #[napi]
    pub fn collect(&self) -> Vec<Told> {
        let arrived = mem::take(&mut self.0.inside().arrived);
        arrived.into_iter().map(|(ticket, outcome)| outcome.tell(ticket, &self.0)).collect()
    }

    /// The loop ends: releases what it holds. `process.exit` ends it without the hook of `new`, and the end
    /// of a worker thread without an event in JavaScript.
    #[napi(catch_unwind)]
    pub fn end(&self) {
        self.0.end();
    }

    /// Gives work up. What it has acquired is released.
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
}

impl Letters {
    /// Does this work in the runtime, and posts its outcome. It can be given up.
    pub(crate) fn run(
        self: &Arc<Self>,
        connected: &Arc<Connected>,
        ticket: u32,
        work: impl Future<Output = Outcome> + Send + 'static,
    ) {
        // Whoever ends this work waits until it is written down.
        let mut inside = self.inside();
        let task = self.carry_out(connected, ticket, work);
        inside.under_way.insert(ticket, task);
    }

    /// The same for work that goes on when the loop ends.
    pub(crate) fn carry_out(
        self: &Arc<Self>,
        connected: &Arc<Connected>,
        ticket: u32,
        work: impl Future<Output = Outcome> + Send + 'static,
    ) -> AbortHandle {
        let (letters, client) = (Arc::clone(self), Arc::clone(connected));
        runtime::run(&connected.runtime, work, move |outcome| {
            let outcome = outcome.unwrap_or_else(|words| {
                client.breaks();
                Outcome::Panicked(words)
            });
            letters.post(ticket, outcome);
        })
    }

    /// Posts what happened. With ticket 0 nobody has asked for it.
    pub(crate) fn post(&self, ticket: u32, outcome: Outcome) {
        let mut inside = self.inside();
        inside.under_way.remove(&ticket);
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

    /// The loop has ended: releases what it holds, and waits until the nodes have answered, but not for
    /// long.
    fn end(&self) {
        let Inside { arrived, under_way, guards, clients, .. } =
            mem::replace(&mut *self.inside(), Inside { has_ended: true, ..Inside::default() });
        under_way.values().for_each(AbortHandle::abort);
        let clients: Vec<Arc<Connected>> = clients.iter().filter_map(Weak::upgrade).collect();
        drop(arrived);
        let held = guards.values().filter_map(Weak::upgrade);
        held.for_each(|place| drop(place.lock().unwrap_or_else(PoisonError::into_inner).take()));
        let Some(runtime) = clients.first().map(|client| client.runtime.clone()) else { return };
        let (done, heard) = mpsc::sync_channel(1);
        runtime.spawn(async move {
            // What was given up ends when it is next looked at, which is now.
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

fn number(place: &Arc<Place>) -> usize {
    Arc::as_ptr(place).addr()
}

/// A client ends its own wait before this, unless it was given a longer one.
const LONGEST_END: Duration = Duration::from_secs(10);
