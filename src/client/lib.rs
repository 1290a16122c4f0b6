//! Distributed locks from Rust, over one node or a quorum of them.
//!
//! A node is a Redis or Valkey server with the dlock module. Several nodes that are independent of each other
//! make a lock that survives the loss of any minority of them.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let nodes = "redis://10.0.0.1,redis://10.0.0.2,redis://10.0.0.3";
//! let client = dlock_redis::Client::connect(nodes).await?;
//!
//! let guard = client.lock("job:42").acquire_within(Duration::from_secs(10)).await?;
//! println!("it is my turn, with fence {}", guard.fence());
//! tokio::select! {
//!     () = work(guard.fence()) => {}
//!     loss = guard.lost() => return Err(loss.into()),
//! }
//! guard.release().await?;
//! client.close().await;
//! # Ok(())
//! # }
//! # async fn work(_: u64) {}
//! ```
//!
//! A complete program is in `examples/job.rs`.
//!
//! The library reports through [`tracing`]: a span `acquire` for each acquisition, a span `hold` for each
//! guard, and events in them. Within `acquire`, each time in a queue has a span `wait`, with the holders in
//! the way. Where they fit, fields have OpenTelemetry's names for databases (`db.system.name`,
//! `db.operation.name`, `server.address`, `error.type`). They never contain a token or a password.
//!
//! With the feature `operator` the module `operator` has the parts for tools that look at single nodes.
//!
//! The rules are in `dlock-redis-core`, in its module `quorum`, without any IO. This crate runs them. In
//! reading order:
//!
//! - `client`: the nodes, and the connection to them. `shared`: the state that locks and guards of a client
//!   share.
//! - `options`: the options of a lock. `acquire`: a lock, and the run of an acquisition.
//! - `hold`: a guard, the task that renews its lock, and connections to data that refuse late holders.
//! - `traffic`: the requests of both, their connections, and the meaning of the replies.
//! - `reach`: from a URL to a connection, and the identity of the node at its other end.
//! - `by_token`: locks that no guard keeps; `inspect`: a node's report about a lock.
//! - `report`: errors, the state of each node, and notices for operators.
//! - `key`, `token`, `printable`, `clock`: names, secrets, their safe display, and the time.

#![forbid(unsafe_code)]

mod acquire;
mod by_token;
mod client;
mod clock;
mod hold;
mod inspect;
mod key;
mod options;
mod printable;
mod reach;
mod report;
mod shared;
mod token;
mod traffic;

pub use acquire::lock::Lock;
pub use client::{Client, ClientBuilder};
pub use dlock_core::words::{Mode, Patience};
pub use hold::guard::{Guard, Lease};
pub use inspect::{DoneInfo, HolderInfo, Inspection, WaiterInfo};
pub use key::Key;
pub use options::LockOptions;
pub use reach::address::Address;
pub use report::error::{Error, Loss, LossReason};
pub use report::notice::Notice;
pub use report::{NodeError, NodeState, Release, Report};
pub use token::{InvalidToken, Token};

/// The parts for tools that look at single nodes and servers (feature `operator`). They use types of the
/// [`redis`] crate, and may change with any release.
#[cfg(feature = "operator")]
pub mod operator {
    pub use crate::inspect::{Fields, UnexpectedReply};
    pub use crate::printable::{Printable, is_invisible};
    pub use crate::reach::address::servers::Server;
    pub use crate::reach::address::stand_by::StandBy;
    pub use crate::reach::endpoint::{Connection, Endpoint};
    pub use crate::reach::node::Node;
    pub use crate::reach::socket::lookups;

    use crate::Inspection;
    use redis::Value;

    /// Reads the reply to DLOCK.INSPECT, or to DLOCK.TOKENS. `None`: the lock is free.
    ///
    /// # Errors
    /// Fails when the reply has another form.
    pub fn inspection(reply: &Value) -> Result<Option<Inspection>, UnexpectedReply> {
        Inspection::read(reply)
    }
}
