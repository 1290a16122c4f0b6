//! The library for Node, as far as it is Rust: `native.node`.
//!
//! The locks are those of `dlock-client`; no rule of theirs is written again here. What JavaScript
//! programmers see is in `dlock/`, in TypeScript: promises, abort signals, classes of errors. In between,
//! in reading order:
//!
//! - `runtime`: the thread in which everything runs and is renewed. It never waits for an event loop.
//! - `post`: the outcomes for one event loop, and what that loop holds: its end releases it.
//! - `client`, `lock`, `guard`: the classes.
//! - `outcome`: what can come of work. `told`, `report`, `failure`: the same as values of JavaScript.
//! - `trace`: what the library tells, for `node:diagnostics_channel`.
//! - `arguments`: keys and lengths of time, as JavaScript writes them.

mod arguments;
mod client;
mod failure;
mod guard;
mod lock;
mod outcome;
mod post;
mod report;
mod runtime;
mod told;
mod trace;
