//! The end of the interpreter: what is held is released, and what is waited for is given up.

use std::collections::BTreeMap;
use std::process;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use futures_util::future::join_all;
use pyo3::prelude::*;
use tokio::task::yield_now;

use crate::held::Place;
use crate::local::Local;
use crate::runtime;
use crate::wait::wait;

/// Guards by where they are in memory, and clients. Locked only by who is attached to the interpreter.
static ALIVE: Mutex<Alive> = Mutex::new(Alive { guards: BTreeMap::new(), clients: Vec::new() });

struct Alive {
    guards: BTreeMap<usize, Weak<Place>>,
    clients: Vec<Weak<Local>>,
}

/// Releases all locks of this process, gives up what waits, and waits until the nodes have answered, but not
/// for long.
#[pyfunction]
pub(crate) fn release_all(py: Python<'_>) -> PyResult<()> {
    let Some(runtime) = runtime::last(py).filter(|runtime| runtime.process == process::id()) else {
        return Ok(());
    };
    let places: Vec<Arc<Place>> = alive().guards.values().filter_map(Weak::upgrade).collect();
    for place in places {
        drop(place.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
    let clients: Vec<Arc<Local>> = alive().clients.iter().filter_map(Weak::upgrade).collect();
    let ours = clients.iter().filter(|client| client.runtime.process == process::id());
    ours.clone().for_each(|client| client.end());
    let closing: Vec<_> = ours.map(|client| client.closing()).collect();
    let all = async move {
        // What was given up ends when it is next looked at, which is now.
        yield_now().await;
        join_all(closing).await
    };
    wait(py, &runtime, all).map(drop)
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

fn number(place: &Arc<Place>) -> usize {
    Arc::as_ptr(place).addr()
}

fn alive() -> MutexGuard<'static, Alive> {
    ALIVE.lock().unwrap_or_else(PoisonError::into_inner)
}
