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
//! The server calls a module on one thread, under its own lock, with one exception: `free` of [`lock_type`]
//! and [`done_type`] may run on other threads, as `ffi::block` and `ffi::done` allow. No command has the flag
//! `getkeys-api`: servers would ask for its keys on their threads for clients, where the call itself crashes them.

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
