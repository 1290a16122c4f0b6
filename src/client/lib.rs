//! Distributed locks from Rust, over one node or a quorum of them.
//!
//! A node is a Redis or Valkey server with the dlock module. Several nodes that know nothing of
//! each other make a lock that survives the loss of the smaller half of them.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let nodes = "redis://10.0.0.1,redis://10.0.0.2,redis://10.0.0.3";
//! let client = dlock_client::Client::connect(nodes).await?;
//!
//! let guard = client.lock("job:42").acquire_within(Duration::from_secs(10)).await?;
//! println!("it is my turn, with fence {}", guard.fence());
//! tokio::select! {
//!     () = work(guard.fence()) => {}
//!     loss = guard.lost() => return Err(loss.into()),
//! }
//! guard.release().await?;
//! # Ok(())
//! # }
//! # async fn work(_: u64) {}
//! ```
//!
//! A complete program is in `examples/job.rs`.
//!
//! The library reports what happens through [`tracing`]: a span `acquire` for each acquisition, in it a span
//! `wait` for each time in a queue, with what stands in the way, a span `hold` for each guard, and events in
//! them. Where they fit, fields have OpenTelemetry's names for databases (`db.system.name`,
//! `db.operation.name`, `server.address`, `error.type`). They never contain a token or a password.
//!
//! With the feature `otel` it counts by OpenTelemetry: acquisitions, waits, holds, losses and failed renewals,
//! with the provider of meters that is set when the client is made. `examples/otel.rs` prints both.
//!
//! The rules are in `dlock-core`, in its module `quorum`, without any IO. This crate runs them. In
//! reading order:
//!
//! - `client`: the nodes, and how to connect to them. `shared`: what locks and guards of a client share.
//! - `acquire`: a lock that is wanted, and the run of an acquisition.
//! - `hold`: a guard, the task that renews its lock, and connections to data that refuse late holders.
//! - `traffic`: the requests of both, their connections, and what the replies mean.
//! - `reach`: from a URL to a connection, and which node is at its other end.
//! - `by_token`: locks that no guard keeps; `inspect`: what a node tells about a lock.
//! - `report`: what each node said, what went wrong, and what an operator should know. `count`: what is
//!   counted, for OpenTelemetry.
//! - `key`, `token`, `printable`, `clock`: names, secrets, how both are shown, and the time.

#![forbid(unsafe_code)]

mod acquire;
mod by_token;
mod client;
mod clock;
mod count;
mod hold;
mod inspect;
mod key;
mod printable;
mod reach;
mod report;
mod shared;
mod token;
mod traffic;

pub use acquire::lock::Lock;
pub use client::{Client, ClientBuilder};
pub use hold::fenced::{Fenced, Late};
pub use hold::guard::{Guard, Lease};
pub use inspect::{Fields, HolderInfo, Inspection, UnexpectedReply, WaiterInfo};
pub use key::Key;
pub use printable::Printable;
pub use reach::address::Address;
pub use reach::address::servers::Server;
pub use reach::address::stand_by::StandBy;
pub use reach::endpoint::{Connection, Endpoint};
pub use reach::node::Node;
pub use report::error::{Error, Loss, LossReason, RunError};
pub use report::notice::Notice;
pub use report::{NodeError, NodeState, Release, Report};
pub use token::{InvalidToken, Token};
