//! `libdlock.so`: the rules of `dlock_core`, inside Redis and Valkey.
//!
//! The rules decide; this crate carries out. The server calls [`entry`], which calls what is in
//! this folder, which calls the server by [`ffi`]. All that is `unsafe` is in these two. In reading
//! order:
//!
//! - [`commands`]: what a client can send, and what becomes of it.
//! - [`fences`]: commands that are carried out for true holders only.
//! - [`host`]: the server's keyspace as the rules see it.
//! - [`state`]: what the module keeps beside the keyspace.
//! - [`turn`]: what is done when time has passed.
//! - [`outside`]: what the server does to locks, and how they take it.
//! - [`evicted`]: locks whose keys the server has evicted.
//! - [`incoming`]: a data set that is loaded beside the one that counts.
//! - [`books`], [`ledger`], [`state_file`]: what is promised, and the file that says so.
//! - [`audience`]: whether anybody listens to what is replicated.
//! - [`reply`], [`inspection`]: answers with more than one line.
//! - [`info`], [`stats`], [`settings`]: for whoever operates it.

#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
#![deny(unsafe_code)]
#![allow(missing_docs, reason = "nothing here can be used from outside")]

mod audience;
mod books;
mod commands;
#[allow(unsafe_code, reason = "the server calls C functions")]
mod entry;
mod evicted;
mod fences;
#[allow(unsafe_code, reason = "the server's functions are C functions")]
mod ffi;
mod host;
mod incoming;
mod info;
mod inspection;
mod ledger;
mod outside;
mod reply;
mod settings;
mod state;
mod state_file;
mod stats;
mod turn;
