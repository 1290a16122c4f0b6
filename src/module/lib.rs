//! `libdlock.so`: the rules of `dlock_core`, inside Redis and Valkey.
//!
//! The rules decide; this crate carries out. The server calls [`entry`], which calls the modules of this
//! folder, which call the server through [`ffi`]. All `unsafe` code is in these two. In reading order:
//!
//! - [`commands`], [`fenced_commands`]: the handlers of the commands.
//! - [`keyspace`]: the server's keyspace as the node sees it.
//! - [`state`]: the module's state beside the keyspace. Its parts: [`moved_keys`], locks with unknown keys;
//!   [`blocked_clients`]; [`replication_demand`], the need to replicate at all; [`server_memory`]; [`stats`].
//! - [`durability`]: the promise, and the state file that stores it before a grant.
//! - [`server_events`]: the server's events, and their effect on locks.
//! - [`event_loop`]: the work of the event loop: ends of leases and waits.
//! - [`reply`], [`inspection`], [`hot`], [`info`], [`node_figures`]: answers with more than one line.
//! - [`settings`]: the operator's settings.

#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
#![deny(unsafe_code)]
#![allow(missing_docs, reason = "nothing here can be used from outside")]

mod blocked_clients;
mod commands;
mod durability;
#[allow(unsafe_code, reason = "the server calls C functions")]
mod entry;
mod event_loop;
mod fenced_commands;
#[allow(unsafe_code, reason = "the server's functions are C functions")]
mod ffi;
mod hot;
mod info;
mod inspection;
mod keyspace;
mod moved_keys;
mod node_figures;
mod replication_demand;
mod reply;
mod server_events;
mod server_memory;
mod settings;
mod state;
mod stats;
