//! Blocks of `with`.
//!
//! After Ctrl-C, an alarm or a task's time limit, Python can raise an exception between any two steps of its code,
//! in `__enter__`, `__exit__` and `release` as well. Steps that must not be left half done run here, where none is
//! raised.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::errors;
use crate::events;
use crate::guard::{Guard, released};
use crate::held::Held;
use crate::local::is_late;
use crate::lock::{Lock, Wait};
use crate::outcome_queue::{OutcomeQueue, ReplyTo};
use crate::work::carry_out;

/// The Rust part of the threaded guards.
#[pyclass(frozen, subclass, module = "dlock._native")]
pub(crate) struct GuardBase(Py<Guard>);

#[pymethods]
impl GuardBase {
    #[new]
    fn new(guard: Py<Guard>) -> GuardBase {
        GuardBase(guard)
    }

    #[getter]
    fn _native(&self, py: Python<'_>) -> Py<Guard> {
        self.0.clone_ref(py)
    }

    /// Releases the lock. Waits until a majority of the nodes has answered, or until the node time-out; the
    /// rest goes on in the background. Raises LostError if the lock was lost before.
    fn release(&self, py: Python<'_>) -> PyResult<()> {
        // From here on dropping the guard releases the lock.
        let Held { guard, local } = self.0.get().take(py)?;
        finish(py, |to| carry_out(py, &local, to, released(guard))).map(drop)
    }

    fn __enter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        let guard = slf.get().0.get();
        match guard.loss(slf.py()) {
            None => Ok(slf),
            Some(loss) => {
                guard.drop();
                Err(loss)
            }
        }
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        _kind: &Bound<'_, PyAny>,
        error: &Bound<'_, PyAny>,
        _trace: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let guard = self.0.get();
        if !guard.is_open() && !guard.is_inherited() {
            return Ok(()); // the block has released it
        }
        let lost = match self.release(py) {
            Err(lost) if !error.is_none() && errors::is_lost(py, &lost)? => lost,
            outcome => return outcome,
        };
        // The block's own exception is more specific.
        events::warn(lost.value(py).str()?.to_string());
        Ok(())
    }
}

/// The Rust part of the threaded locks.
#[pyclass(frozen, subclass, module = "dlock._native")]
pub(crate) struct LockBase {
    lock: Py<Lock>,
    /// True once it has begun its only block.
    entered: AtomicBool,
    block: Mutex<Option<Py<GuardBase>>>,
}

#[pymethods]
impl LockBase {
    #[new]
    fn new(lock: Py<Lock>) -> LockBase {
        LockBase { lock, entered: AtomicBool::default(), block: Mutex::default() }
    }

    #[getter]
    fn _native(&self, py: Python<'_>) -> Py<Lock> {
        self.lock.clone_ref(py)
    }

    /// Acquires the lock; `wait` replaces the lock's own. Raises HeldError when that time is over. Keep the
    /// returned guard: without a reference it releases the lock at once.
    #[pyo3(signature = (*, wait = Wait::OfLock))]
    fn acquire<'py>(slf: &Bound<'py, Self>, wait: Wait) -> PyResult<Bound<'py, GuardBase>> {
        follow(slf.py())?;
        let guard = finish(slf.py(), |to| slf.get().lock.get().acquire(slf.py(), to, wait))?;
        Self::guard(slf, guard)
    }

    /// Acquires the lock if it is free.
    fn try_acquire<'py>(slf: &Bound<'py, Self>) -> PyResult<Option<Bound<'py, GuardBase>>> {
        follow(slf.py())?;
        let guard = finish(slf.py(), |to| slf.get().lock.get().try_acquire(slf.py(), to))?;
        if guard.is_none() { Ok(None) } else { Self::guard(slf, guard).map(Some) }
    }

    fn __enter__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, GuardBase>> {
        let lock = slf.get();
        if lock.entered.swap(true, Ordering::AcqRel) {
            return Err(errors::usage(slf.py(), ENTERED.to_owned()));
        }
        let guard = Self::acquire(slf, Wait::OfLock)
            .inspect_err(|_| lock.entered.store(false, Ordering::Release))?;
        *lock.block() = Some(guard.clone().unbind());
        Ok(guard)
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        kind: &Bound<'_, PyAny>,
        error: &Bound<'_, PyAny>,
        trace: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let block = self.block().take();
        let not_entered = || PyRuntimeError::new_err("no block of this lock has begun");
        block.ok_or_else(not_entered)?.get().__exit__(py, kind, error, trace)
    }
}

impl LockBase {
    /// Makes a guard of Python.
    fn guard<'py>(
        slf: &Bound<'py, Self>,
        guard: Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, GuardBase>> {
        let py = slf.py();
        let guard = py.import("dlock._sync")?.getattr("Guard")?.call1((guard,))?;
        // Python's garbage collector follows these references, and does not look into this type.
        guard.setattr("_client", slf.getattr("_client")?)?;
        guard.setattr("_hooks", PyList::empty(py))?;
        Ok(guard.cast_into()?)
    }

    /// Locks the mutex, which must not be held while Python runs.
    fn block(&self) -> MutexGuard<'_, Option<Py<GuardBase>>> {
        self.block.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Passes on the logger's level: logging may have been configured since the lock was made.
fn follow(py: Python<'_>) -> PyResult<()> {
    if !is_late() {
        py.import("dlock._hooks")?.call_method0("follow")?;
    }
    Ok(())
}

/// Begins this work, and waits for its outcome, while other greenlets run. If the wait is interrupted, it cancels
/// the task that `begin` returns.
fn finish<'py>(
    py: Python<'py>,
    begin: impl FnOnce(ReplyTo<'py>) -> PyResult<Py<PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let Some(green) = green(py)? else {
        return begin(None).map(|outcome| outcome.into_bound(py));
    };
    let queue = Bound::new(py, OutcomeQueue::new()?)?;
    let task = begin(Some((queue.clone(), ID)))?;
    green.call_method1("outcome", (queue, task))
}

/// Returns the module that waits while greenlets run: a thread that blocks would stop all of them. Returns none if
/// no greenlets run here. Without a library of greenlets, and at the end of the interpreter, no code of Python runs
/// here.
fn green(py: Python<'_>) -> PyResult<Option<Bound<'_, PyModule>>> {
    let modules = py.import("sys")?.getattr("modules")?;
    let has_library = modules.contains("gevent.monkey")? || modules.contains("eventlet.patcher")?;
    if !has_library || is_late() {
        return Ok(None);
    }
    let green = py.import("dlock._green")?;
    let is_patched = green.call_method0("is_patched")?.is_truthy()?;
    Ok(is_patched.then_some(green))
}

/// The id of the only work in a queue.
const ID: u64 = 0;

/// A lock cannot tell its blocks apart when they end: in another thread, or when a generator is collected.
const ENTERED: &str =
    "this lock has begun its one block: use `with lock.acquire() as guard`, as often as you like";
