//! The module inside its server: configuration, INFO, events, clients, scripts, and the server's own tools.

mod chores;
mod clients;
mod config;
mod events;
mod info;
mod introspection;
mod memory;
mod renamed;
mod rm_call;
mod scripts;
mod watch;
