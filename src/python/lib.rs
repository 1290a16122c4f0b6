//! The Rust part of the library for Python: `dlock._native`.
//!
//! The locks and their rules are in `dlock-client`. The public part is in
//! `dlock/`, in Python: context managers, asyncio, exceptions. In reading order:
//!
//! - `own`: values that a child process must not touch. `runtime`: the thread that carries everything out and
//!   renews leases; it never waits for the interpreter.
//! - `outcome`: outcomes, which become values of Python without running code of Python. `errors`, `value`: outcomes as
//!   exceptions and named tuples. `outcome_queue`: outcomes for an event loop.
//! - `local`: a client's state in this process. `work`: carries work out; `wait`: a Python thread that waits for it.
//! - `client`, `lock`, `guard`: the classes. `block`: the begin and end of a `with` block.
//! - `held`, `exit`: the end of the interpreter releases held locks. `fork`: hooks before and after a fork.
//! - `options`, `arguments`: read the options of a lock, keys and lengths of time from Python.
//! - `events`: log lines, notices and warnings, for a thread of Python.
//!
//! Nothing here is made at its first use behind a lock (`PyOnceLock`, `intern!`): a child of a fork would wait for ever
//! for a thread that it does not have.

mod arguments;
mod block;
mod client;
mod errors;
mod events;
mod exit;
mod fork;
mod guard;
mod held;
mod local;
mod lock;
mod options;
mod outcome;
mod outcome_queue;
mod own;
mod runtime;
mod value;
mod wait;
mod work;

use pyo3::prelude::*;

/// The part of dlock that is written in Rust. Use the package `dlock`.
#[pymodule(gil_used = true)]
mod _native {
    #[pymodule_export]
    use crate::block::{GuardBase, LockBase};
    #[pymodule_export]
    use crate::client::Client;
    #[pymodule_export]
    use crate::events::{serve, serve_lines, set_level};
    #[pymodule_export]
    use crate::exit::release_all;
    #[pymodule_export]
    use crate::fork::{after_in_child, after_in_parent, before};
    #[pymodule_export]
    use crate::guard::Guard;
    #[pymodule_export]
    use crate::lock::Lock;
    #[pymodule_export]
    use crate::outcome_queue::{OutcomeQueue, Task};

    /// The version of the package.
    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");
}
