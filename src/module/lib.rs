//! `libdlock.so`: the rules of `dlock_core`, inside Redis and Valkey.
//!
//! The rules decide; this crate carries out. The server calls [`entry`], which calls what is in
//! this folder, which calls the server by [`ffi`]. All that is `unsafe` is in these two. In reading
//! order:
//!
//! - [`commands`], [`fences`]: what a client can send, and what becomes of it.
//! - [`keyspace`]: the server's keyspace as the rules see it.
//! - [`state`]: what the module keeps beside the keyspace. Its parts:
//!   [`strays`] and [`evicted`], locks that are somewhere else than the index thinks;
//!   [`promises`], with [`ledger`] and [`state_file`], what is promised and the file that says so;
//!   [`incoming`], what is being loaded; [`migrations`], slots that come and go; [`waiters`], the blocked
//!   clients; [`audience`], whether anybody listens to what is replicated; [`server_memory`]; [`stats`].
//! - [`turn`]: what is done when time has passed.
//! - [`outside`], [`taken`], [`loading`], [`migration`]: what the server does to locks, and how they
//!   take it.
//! - [`books`]: what is promised, from the first moment of a life to its last.
//! - [`reply`], [`inspection`], [`seen`], [`info`], [`about`]: answers with more than one line.
//! - [`settings`]: what an operator can set.

#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
#![deny(unsafe_code)]
#![allow(missing_docs, reason = "nothing here can be used from outside")]

mod about;
mod audience;
mod books;
mod commands;
#[allow(unsafe_code, reason = "the server calls C functions")]
mod entry;
mod evicted;
mod fences;
#[allow(unsafe_code, reason = "the server's functions are C functions")]
mod ffi;
mod incoming;
mod info;
mod inspection;
mod keyspace;
mod ledger;
mod loading;
mod migration;
mod migrations;
mod outside;
mod promises;
mod reply;
mod seen;
mod server_memory;
mod settings;
mod state;
mod state_file;
mod stats;
mod strays;
mod taken;
mod turn;
mod waiters;
