//! Getting there: from a URL to a connection with the right server of the right node.
//!
//! - [`address`]: URLs. [`endpoint`]: a server, to be connected to. [`socket`]: the bytes below.
//! - [`wire`]: a connection. [`line`]: all connections to one server. [`seats`]: how many may wait.
//! - [`identity`]: which node is at the other end.
//! - [`sentinel`]: which server is the primary now. [`cluster`]: which server has the key. [`route`]: where a
//!   request goes on. [`node`]: one node, whatever it is.
//! - [`failure`]: what the errors of a connection mean. [`tls`]: who is trusted, and what went wrong with that.
//!
//! # Why the routing is our own
//!
//! The redis crate (1.8) follows Sentinels and clusters, too. A lock needs more than its interface shows:
//!
//! - *Who leads.* The crate believes the first Sentinel of the list whose primary says that it is one. After a
//!   partition both primaries say so. Here the answer with the highest configuration epoch counts, and
//!   `+switch-master` is heard at once and not at the next error.
//! - *What was sent.* A cluster's connection of the crate sends a request again by itself, and its caller
//!   does not hear of that. A request that may arrive twice is another request to the rules of the quorum
//!   (`Ballot::sent_again`).
//! - *Over which connection.* A waiting request occupies its connection, and an EPHEMERAL grant ends with
//!   its own. The crate chooses the connection of a request, and shares it among all requests to a server.
//! - *To which server.* One server has one vote, at whatever address it answers. So each new connection is
//!   asked for the name of its node before anything else is sent.
//!
//! The protocol, TLS sockets and single connections are the crate's. The rest can go when the crate hands out
//! connections for one server each, says when it sends a request again, and compares Sentinels by epoch.

pub(crate) mod address;
pub(crate) mod cluster;
pub(crate) mod endpoint;
pub(crate) mod failure;
pub(crate) mod identity;
mod line;
pub(crate) mod node;
mod route;
pub(crate) mod seats;
pub(crate) mod sentinel;
mod socket;
mod tls;
pub(crate) mod wire;
