//! The Rust part of the library for Node.js: `native.node`.
//!
//! The locks and their rules are in `dlock-client`. The public part is in
//! `dlock/`, in TypeScript: promises, abort signals, classes of errors. In reading order:
//!
//! - `runtime`: the thread that carries everything out and renews leases. It never waits for an event loop.
//! - `event_loop`: the outcomes for one event loop, and the locks of that loop: its end releases them.
//! - `client`, `lock`, `guard`: the classes.
//! - `outcome`: the possible outcomes of work. `completion`, `value`: outcomes as values of JavaScript.
//! - `trace`: the library's log lines, for `node:diagnostics_channel`.
//! - `options`, `arguments`: read the options of a lock, lengths of time and keys from JavaScript.

mod arguments;
mod client;
mod completion;
mod event_loop;
mod guard;
mod lock;
mod options;
mod outcome;
mod runtime;
mod trace;
mod value;
