//! `libdlock.so`: the rules of `dlock_core`, inside Redis and Valkey.
//!
//! The rules decide; this crate carries out. The server calls [`entry`], which calls what is in
//! this folder, which calls the server by [`ffi`]. All that is `unsafe` is in these two. In reading
//! order:
//!
//! - [`commands`], [`fenced_commands`]: what a client can send, and what becomes of it.
//! - [`keyspace`]: the server's keyspace as the rules see it.
//! - [`state`]: what the module keeps beside the keyspace. Its parts: [`moved_keys`] and [`evicted`], locks
//!   that are somewhere else than the index thinks; [`blocked_clients`]; [`replication_demand`], whether
//!   anybody listens to what is replicated; [`server_memory`]; [`stats`].
//! - [`durability`]: what is promised, and the file that says so before anything is granted.
//! - [`server_events`]: what the server tells, and what follows for locks.
//! - [`event_loop`]: what is done when time has passed.
//! - [`reply`], [`inspection`], [`hot_and_slow`], [`info`], [`node_figures`]: answers with more than one line.
//! - [`settings`]: what an operator can set.

#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
#![deny(unsafe_code)]
#![allow(missing_docs, reason = "nothing here can be used from outside")]

mod blocked_clients;
mod commands;
mod durability;
#[allow(unsafe_code, reason = "the server calls C functions")]
mod entry;
mod event_loop;
mod evicted;
mod fenced_commands;
#[allow(unsafe_code, reason = "the server's functions are C functions")]
mod ffi;
mod hot_and_slow;
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
