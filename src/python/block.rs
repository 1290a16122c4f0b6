//! Blocks of `with`.
//!
//! Python can raise an exception between any two steps of its code, in `__enter__`, `__exit__` and `release`
//! as well: after Ctrl-C, an alarm, a task's time limit. So steps that must not be left half done run here,
//! where none is raised.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use dlock_client::Patience;
use futures_util::TryFutureExt;
use pyo3::exceptions::PyRuntimeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::arguments::patience;
use crate::guard::{Guard, released};
use crate::held::Held;
use crate::lock::Lock;
use crate::outcome::Outcome;
use crate::post::{Post, Ticket};

/// The Rust part of the threaded guards.
#[pyclass(frozen, subclass, module = "dlock._native")]
pub(crate) struct Block(Py<Guard>);

#[pymethods]
impl Block {
    #[new]
    fn new(guard: Py<Guard>) -> Block {
        guard.get().give();
        Block(guard)
    }

    #[getter]
    fn _native(&self, py: Python<'_>) -> Py<Guard> {
        self.0.clone_ref(py)
    }

    /// Releases the lock. Waits until a majority of the nodes has answered, or until the node time-out; the
    /// rest goes on in the background. Raises LostError if the lock was lost before.
    fn release(&self, py: Python<'_>) -> PyResult<()> {
        // From here on the lock is released in any case.
        let Held { guard, local } = self.0.get().take(py)?;
        if !is_patched(py)? {
            return local.wait(py, released(guard));
        }
        let post = Bound::new(py, Post::new()?)?;
        post.get().run(&local, NUMBER, released(guard).map_ok(|()| Outcome::Done))?;
        outcome(&post, None).map(drop)
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
            Err(lost) if !error.is_none() && is_lost(&lost, py)? => lost,
            outcome => return outcome,
        };
        // The block's own exception says more.
        let logger = py.import("logging")?.call_method1("getLogger", ("dlock",))?;
        logger.call_method1("warning", ("%s", lost.value(py).str()?)).map(drop)
    }
}

/// The Rust part of the threaded locks.
#[pyclass(frozen, subclass, module = "dlock._native")]
pub(crate) struct Recipe {
    lock: Py<Lock>,
    wait: Patience,
    /// Guards of the blocks under way, each with its thread or greenlet.
    entered: Mutex<Vec<(Who, Py<Block>)>>,
}

#[pymethods]
impl Recipe {
    #[new]
    fn new(lock: Py<Lock>, wait: Option<&Bound<'_, PyAny>>) -> PyResult<Recipe> {
        Ok(Recipe { lock, wait: patience(wait)?, entered: Mutex::default() })
    }

    #[getter]
    fn _native(&self, py: Python<'_>) -> Py<Lock> {
        self.lock.clone_ref(py)
    }

    /// Acquires the lock; `wait` replaces the lock's own. Raises HeldError when that time is over. Keep the
    /// returned guard: without a reference it releases the lock at once.
    #[pyo3(signature = (*, wait = Wait::OfLock))]
    fn acquire<'py>(&self, py: Python<'py>, wait: Wait) -> PyResult<Bound<'py, Block>> {
        let wait = match wait {
            Wait::OfLock => self.wait,
            Wait::Given(wait) => wait,
        };
        self.take(py, wait)
    }

    /// Acquires the lock without a wait.
    fn _acquire_now<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, Block>> {
        self.take(py, Patience::Try)
    }

    fn __enter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, Block>> {
        let who = Who::now(py);
        let block = self.take(py, self.wait)?;
        self.entered().push((who, block.clone().unbind()));
        Ok(block)
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        kind: &Bound<'_, PyAny>,
        error: &Bound<'_, PyAny>,
        trace: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let who = Who::now(py);
        let newest = {
            let mut entered = self.entered();
            // The newest block of this thread. Some frameworks end a block in another thread than they began
            // it in.
            let mine = entered.iter().rposition(|(other, _)| *other == who);
            let at = mine.or_else(|| entered.len().checked_sub(1));
            at.map(|at| entered.remove(at))
        };
        let not_entered = || PyRuntimeError::new_err("nobody is in a block of this lock");
        let (_, block) = newest.ok_or_else(not_entered)?;
        block.get().__exit__(py, kind, error, trace)
    }
}

/// The limit of a wait.
enum Wait {
    /// The lock's own.
    OfLock,
    /// This limit.
    Given(Patience),
}

impl<'a, 'py> FromPyObject<'a, 'py> for Wait {
    type Error = PyErr;

    fn extract(given: Borrowed<'a, 'py, PyAny>) -> PyResult<Wait> {
        let given = (!given.is_none()).then_some(&*given);
        Ok(Wait::Given(patience(given)?))
    }
}

impl Recipe {
    /// Acquires the lock. A guard that is not returned releases it.
    fn take<'py>(&self, py: Python<'py>, wait: Patience) -> PyResult<Bound<'py, Block>> {
        let lock = self.lock.get();
        let guard = if is_patched(py)? {
            let post = Bound::new(py, Post::new()?)?;
            let ticket = lock.acquire_for(py, post.get(), NUMBER, wait)?;
            outcome(&post, Some(ticket))?
        } else {
            Bound::new(py, lock.acquire_now(py, wait)?)?.into_any()
        };
        let class = py.import("dlock._sync")?.getattr(intern!(py, "Guard"))?;
        Ok(class.call1((guard,))?.cast_into()?)
    }

    /// This mutex is never held while Python runs.
    fn entered(&self) -> MutexGuard<'_, Vec<(Who, Py<Block>)>> {
        self.entered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The Rust part of locks like redis-py's. Their `_enter` and `_release` are in Python; an interrupt there
/// loses no lock.
#[pyclass(frozen, subclass, module = "dlock._native")]
pub(crate) struct Like;

#[pymethods]
impl Like {
    #[new]
    #[pyo3(signature = (*_given, **_named))]
    fn new(_given: &Bound<'_, PyTuple>, _named: Option<&Bound<'_, PyDict>>) -> Like {
        Like
    }

    fn __enter__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let before = renewed(slf);
        let entered = slf.call_method0(intern!(slf.py(), "_enter"));
        let is_same = |guard: &Bound<'_, Guard>| before.as_ref().is_some_and(|old| old.is(guard));
        if entered.is_err() {
            renewed(slf)
                .filter(|guard| !is_same(guard))
                .iter()
                .for_each(|guard| guard.get().drop());
        }
        entered
    }

    #[pyo3(signature = (*_error))]
    fn __exit__(slf: &Bound<'_, Self>, _error: &Bound<'_, PyTuple>) -> PyResult<()> {
        whole(slf, "_exit")
    }

    /// Releases the lock.
    fn release(slf: &Bound<'_, Self>) -> PyResult<()> {
        whole(slf, "_release")
    }
}

/// Runs this method, which releases the lock. If the method fails before that, this releases it.
fn whole(lock: &Bound<'_, Like>, method: &str) -> PyResult<()> {
    let guard = renewed(lock);
    let ended = lock.call_method0(method);
    if ended.is_err() {
        guard.iter().for_each(|guard| guard.get().drop());
    }
    ended.map(drop)
}

/// The guard that renews a lock like redis-py's.
fn renewed<'py>(lock: &Bound<'py, Like>) -> Option<Bound<'py, Guard>> {
    let py = lock.py();
    let lease = lock.getattr(intern!(py, "local")).ok()?.getattr(intern!(py, "lease")).ok()?;
    lease.getattr(intern!(py, "guard")).ok()?.cast_into().ok()
}

/// A thread, or one of its greenlets.
#[derive(PartialEq, Eq)]
struct Who(ThreadId, usize);

impl Who {
    fn now(py: Python<'_>) -> Who {
        let greenlet = || -> PyResult<usize> {
            let modules = py.import(intern!(py, "sys"))?.getattr(intern!(py, "modules"))?;
            let greenlets = modules.get_item(intern!(py, "greenlet"))?;
            Ok(greenlets.call_method0(intern!(py, "getcurrent"))?.as_ptr().addr())
        };
        Who(thread::current().id(), greenlet().unwrap_or_default())
    }
}

/// Returns true if greenlets run here: a thread that blocks would stop all of them.
fn is_patched(py: Python<'_>) -> PyResult<bool> {
    py.import(intern!(py, "dlock._green"))?.call_method0(intern!(py, "is_patched"))?.extract()
}

/// Waits for the one outcome at this post, while other greenlets run.
fn outcome<'py>(post: &Bound<'py, Post>, ticket: Option<Ticket>) -> PyResult<Bound<'py, PyAny>> {
    let green = post.py().import(intern!(post.py(), "dlock._green"))?;
    green.call_method1(intern!(post.py(), "outcome"), (post, ticket))
}

fn is_lost(error: &PyErr, py: Python<'_>) -> PyResult<bool> {
    let class = py.import(intern!(py, "dlock._errors"))?.getattr(intern!(py, "LostError"))?;
    error.value(py).is_instance(&class)
}

const NUMBER: u64 = 0;
