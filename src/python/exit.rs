//! The end of the interpreter: releases held locks, and gives up waits.

use std::collections::BTreeMap;
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures_util::future::join_all;
use pyo3::prelude::*;
use tokio::task::yield_now;
use tokio::time::timeout;

use crate::held::{Held, Place};
use crate::local::Local;
use crate::outcome_queue::Outcomes;
use crate::runtime;
use crate::wait::wait;

/// Guards by address, outcomes for event loops, and clients. Only threads attached to the interpreter lock
/// it.
static ALIVE: Mutex<Alive> =
    Mutex::new(Alive { guards: BTreeMap::new(), outcomes: Vec::new(), clients: Vec::new() });

struct Alive {
    guards: BTreeMap<usize, Weak<Place>>,
    outcomes: Vec<Weak<Outcomes>>,
    clients: Vec<Weak<Local>>,
}

/// The process whose interpreter has ended.
static ENDED: AtomicU32 = AtomicU32::new(0);

/// True if the interpreter ends. After that it waits for its main thread only.
pub(crate) fn has_ended() -> bool {
    ENDED.load(Ordering::Relaxed) == process::id()
}

/// Releases all locks of this process, gives up waits, and waits a short time for the nodes' answers.
#[pyfunction]
pub(crate) fn release_all(py: Python<'_>) -> PyResult<()> {
    let Some(runtime) = runtime::last(py).filter(|runtime| runtime.process == process::id()) else {
        return Ok(());
    };
    ENDED.store(process::id(), Ordering::Relaxed);
    let clients: Vec<Arc<Local>> = alive().clients.iter().filter_map(Weak::upgrade).collect();
    let ours = clients.iter().filter(|client| client.runtime.process == process::id());
    ours.clone().for_each(|client| client.end());
    // A thread that has just acquired a lock, and waits for its turn in Python, registers it in a moment.
    for _ in 0..MOST_TURNS {
        release_what_is_held();
        let rests = join_all(ours.clone().map(|client| client.rests()));
        if wait(py, &runtime, async { timeout(TURN, rests).await })?.is_ok_and(|rest| rest.is_ok())
        {
            break;
        }
    }
    release_what_is_held();
    let closing: Vec<_> = ours.map(|client| client.closing()).collect();
    let all = async move {
        // Aborted work ends at its next poll, which is now.
        yield_now().await;
        join_all(closing).await
    };
    wait(py, &runtime, all).map(drop)
}

fn release_what_is_held() {
    let places: Vec<Arc<Place>> = alive().guards.values().filter_map(Weak::upgrade).collect();
    for place in places {
        let held = place.lock().unwrap_or_else(PoisonError::into_inner).take();
        held.into_iter().for_each(Held::end);
    }
    let outcomes: Vec<Arc<Outcomes>> = alive().outcomes.iter().filter_map(Weak::upgrade).collect();
    outcomes.iter().for_each(|outcomes| outcomes.release());
}

pub(crate) fn remember(place: &Arc<Place>) {
    alive().guards.insert(number(place), Arc::downgrade(place));
}

pub(crate) fn forget(place: &Arc<Place>) {
    alive().guards.remove(&number(place));
}

pub(crate) fn remember_client(client: &Arc<Local>) {
    let clients = &mut alive().clients;
    clients.retain(|client| client.strong_count() > 0);
    clients.push(Arc::downgrade(client));
}

pub(crate) fn remember_outcomes(one: &Arc<Outcomes>) {
    let outcomes = &mut alive().outcomes;
    outcomes.retain(|outcomes| outcomes.strong_count() > 0);
    outcomes.push(Arc::downgrade(one));
}

fn number(place: &Arc<Place>) -> usize {
    Arc::as_ptr(place).addr()
}

fn alive() -> MutexGuard<'static, Alive> {
    ALIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Length of one turn for the other threads, and the limit of turns.
const TURN: Duration = Duration::from_millis(20);
const MOST_TURNS: usize = 100;
