//! The entry: every call of the server enters the module here.
//!
//! - [`load`]: the start.
//! - [`commands`]: commands, and their documentation.
//! - [`lock_type`], [`done_type`], [`mark_type`]: the callbacks of the types `dlock-key`, `dlockdone` and
//!   `dlockmark`; [`payload`]: their common parts.
//! - [`events`]: the timer, and server events: roles, loading, flushes, connections, keys.
//! - [`migration`]: slots that migrate as a whole, on servers that have this.
//! - [`blocked_clients`]: a blocked client is unblocked, or gone.
//! - [`config`]: the configuration.
//!
//! The server calls a module on one thread, under its own lock, with two exceptions. `free` of [`lock_type`]
//! and [`done_type`] may run on other threads, as `ffi::block` and `ffi::done` allow. And [`commands`] may be
//! asked for their keys, which `ffi::inner` answers without any state of the module.

mod blocked_clients;
mod commands;
mod config;
mod done_type;
mod events;
mod load;
mod lock_type;
mod mark_type;
mod migration;
mod payload;
