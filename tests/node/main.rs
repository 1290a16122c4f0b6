//! One lock node, end to end: every command of the module against real servers.
//!
//! In reading order:
//! - [`acquire`] and [`commands`]: DLOCK.ACQUIRE, and the other commands of one lock;
//! - [`done`]: locks that are done for a while;
//! - [`leases`]: their clock, and what else ends them;
//! - [`fences`] and [`fenced`]: the numbers that only grow, and commands that need one;
//! - [`outside`] and [`eviction`]: other commands, and the server itself, at the keys of locks;
//! - [`state_file`], [`quarantine`] and [`restarts`]: a node's state after its end;
//! - [`replicas`] and [`cluster`]: several servers;
//! - [`server`]: the module as a part of its server;
//! - [`load`]: many locks and many clients.

mod acquire;
mod cluster;
mod commands;
mod done;
mod eviction;
mod fenced;
mod fences;
mod leases;
mod load;
mod outside;
mod quarantine;
mod replicas;
mod restarts;
mod server;
mod state_file;
