//! Locks that are held.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use dlock_client::Guard;
use pyo3::prelude::*;

use crate::local::{Local, UnderWay};
use crate::own::Own;

/// A lock that is held.
pub(crate) struct Held {
    pub(crate) guard: Guard,
    pub(crate) local: Arc<Local>,
}

/// A lock that Python has not received yet. Dropping this releases it.
pub(crate) struct Acquired {
    pub(crate) held: Held,
    pub(crate) under_way: UnderWay,
}

/// The place of a held lock. The end of the interpreter finds it. Only threads attached to the interpreter lock
/// the mutex, and never while detached.
pub(crate) struct Place(Mutex<Own<Held>>);

/// All places, by address. Only threads attached to the interpreter lock it.
static PLACES: Mutex<BTreeMap<usize, Weak<Place>>> = Mutex::new(BTreeMap::new());

impl Held {
    /// Ends a lock without an owner.
    pub(crate) fn end(self) {
        dlock_bindings::held::end(self.guard);
    }
}

impl Place {
    pub(crate) fn new(_: Python<'_>, Acquired { held, under_way }: Acquired) -> Arc<Place> {
        let process = held.local.runtime.process;
        let place = Arc::new(Place(Mutex::new(Own::of(held, process))));
        places().insert(Arc::as_ptr(&place).addr(), Arc::downgrade(&place));
        // From here on the end of the interpreter finds it.
        drop(under_way);
        place
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Own<Held>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the lock out of its place, which is not used again.
    pub(crate) fn close(self: &Arc<Place>) -> Option<Held> {
        places().remove(&Arc::as_ptr(self).addr());
        self.lock().take()
    }
}

/// Ends all locks of this process.
pub(crate) fn end_all(_: Python<'_>) {
    let places: Vec<Arc<Place>> = places().values().filter_map(Weak::upgrade).collect();
    for place in places {
        let held = place.lock().take();
        held.into_iter().for_each(Held::end);
    }
}

fn places() -> MutexGuard<'static, BTreeMap<usize, Weak<Place>>> {
    PLACES.lock().unwrap_or_else(PoisonError::into_inner)
}
