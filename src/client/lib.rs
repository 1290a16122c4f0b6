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
//! What happens is told to whoever listens with [`tracing`]: a span `acquire` for each acquisition,
//! a span `hold` for each guard, and events in them; never a token or a password.
//!
//! The rules are in `dlock-core`, in its module `quorum`, without any IO. This crate is what runs
//! them. In reading order:
//!
//! - [`Client`]: the nodes, and what was learned of them. [`ClientBuilder`] makes one.
//! - [`Lock`]: what is wanted, and how long to wait for it.
//! - `driver`: runs an acquisition, and gives everything back if it is dropped half-way.
//! - [`Guard`]: a lock that is held. `keeper`: the task that renews it.
//! - [`Fenced`]: a connection to data that refuses late holders.
//! - `traffic`: the requests that both have under way (`under_way`: futures, a few at once);
//!   `attempt`: in which order, and over which connections, they go.
//! - [`Node`] and `wire`: connections. `identity`: which node is at the other end.
//! - `address`, `request`, `answer`, `tls`, `inspect`: URLs, commands, and what replies mean.
//! - `lease`, `holder`: locks of others; `background`, `memory`, `clock`: as they say.
//! - [`Key`], [`Printable`]: the name of a lock, and how it is shown.
//! - [`Notice`]: what an operator should know, though the work goes on.
//! - [`Error`], [`Loss`]: what went wrong; [`Report`]: what each node said.

#![forbid(unsafe_code)]

mod address;
mod answer;
mod attempt;
mod background;
mod client;
mod clock;
mod driver;
mod error;
mod fenced;
mod guard;
mod holder;
mod identity;
mod inspect;
mod keeper;
mod key;
mod lease;
mod lock;
mod memory;
mod node;
mod notice;
mod report;
mod request;
mod text;
mod tls;
mod token;
mod traffic;
mod under_way;
mod wire;

pub use address::Address;
pub use client::{Client, ClientBuilder};
pub use error::{Error, Loss, LossReason, RunError};
pub use fenced::{Fenced, Late};
pub use guard::{Guard, Lease};
pub use inspect::{HolderInfo, Inspection, WaiterInfo};
pub use key::Key;
pub use lock::Lock;
pub use node::Node;
pub use notice::Notice;
pub use report::{NodeError, NodeState, Report};
pub use text::Printable;
pub use token::{InvalidToken, Token};
