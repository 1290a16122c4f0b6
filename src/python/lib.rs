//! The library for Python, as far as it is Rust: `dlock._native`.
//!
//! The locks are those of `dlock-client`; no rule of theirs is written again here. What Python
//! programmers see is in `dlock/`, in Python: context managers, asyncio, exceptions. In between, in
//! reading order:
//!
//! - `own`: what a child of this process may touch of it (nothing). `runtime`: the thread in which everything
//!   runs and is renewed; it never waits for the interpreter. `sockets`: those that a child closes.
//! - `local`: what this process has of a client. `wait`: a thread of Python that waits for what comes of work;
//!   `post`: a loop that does. `outcome`: what can come of it.
//! - `client`, `lock`, `guard`: the classes. `block`: what a `with` block begins and ends with. `lease`: a lock
//!   that is handed on. `by_token`: for `dlock.compat`.
//! - `errors`, `told`, `report`: what comes of work, as exceptions and values of Python.
//! - `held`, `exit`: the end of the interpreter releases what is held. `fork`: what is done before and after one.
//! - `arguments`: keys and lengths of time, as Python writes them.
//! - `log`: what the library tells, for Python's `logging`.

mod arguments;
mod block;
mod by_token;
mod client;
mod errors;
mod exit;
mod fork;
mod guard;
mod held;
mod lease;
mod local;
mod lock;
mod log;
mod outcome;
mod own;
mod post;
mod report;
mod runtime;
mod sockets;
mod told;
mod wait;

use pyo3::prelude::*;

/// The part of dlock that is written in Rust. Use the package `dlock`.
#[pymodule(gil_used = true)]
mod _native {
    #[pymodule_export]
    use crate::arguments::seconds;
    #[pymodule_export]
    use crate::block::{Block, Like, Recipe};
    #[pymodule_export]
    use crate::client::Client;
    #[pymodule_export]
    use crate::exit::release_all;
    #[pymodule_export]
    use crate::fork::{after_in_child, after_in_parent, before};
    #[pymodule_export]
    use crate::guard::Guard;
    #[pymodule_export]
    use crate::lease::Detached;
    #[pymodule_export]
    use crate::lock::Lock;
    #[pymodule_export]
    use crate::log::set_level;
    #[pymodule_export]
    use crate::post::{Post, Ticket};
    #[pymodule_export]
    use crate::told::collect;

    /// The version of the package.
    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");
}
