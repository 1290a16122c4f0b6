//! What the server calls: it enters the module here, and nowhere else.
//!
//! - [`load`]: where it begins.
//! - [`commands`]: commands, and their documentation.
//! - [`lock_type`], [`mark_type`]: the callbacks of the types `dlock-key` and `dlockmark`.
//! - [`events`]: what the server tells: roles, loading, flushes, connections, keys.
//! - [`migration`]: slots that migrate as a whole, of which some servers tell.
//! - [`timer`], [`blocked_clients`]: the timer has gone off; a blocked client is unblocked, or gone.
//! - [`config`]: the configuration.
//!
//! The server calls a module on one thread, under its own lock, with two exceptions: `free` of
//! [`lock_type`], which `ffi::block` allows for; and [`commands`] that are asked for their keys, which
//! `ffi::inner` tells without a look at anything of the module's.

mod blocked_clients;
mod commands;
mod config;
mod events;
mod load;
mod lock_type;
mod mark_type;
mod migration;
mod timer;
