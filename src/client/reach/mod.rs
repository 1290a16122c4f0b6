//! From a URL to a connection with the right server of the right node.
//!
//! - [`address`]: URLs. [`endpoint`]: a server's address and login. [`socket`]: the byte stream below.
//! - [`wire`]: a connection. [`server_connections`]: all connections to one server. [`waiting_connections`]: the
//!   limit of waiting connections.
//! - [`identity`]: the identity of the node at the other end.
//! - [`sentinel`]: the present primary. [`cluster`]: the server of a key. [`route`]: redirects of a request.
//!   [`node`]: one node of any kind.
//! - [`failure`]: errors of connections. [`tls`]: certificates, and errors about them.
//!
//! # Why the routing is our own
//!
//! The redis crate (1.8) follows Sentinels and clusters, too. A lock needs more than its interface shows:
//!
//! - *The primary.* The crate believes the first Sentinel of the list whose primary says that it is one.
//!   After a partition both primaries say so. Here the answer with the highest configuration epoch counts,
//!   and `+switch-master` takes effect at once and not at the next error.
//! - *Repeated requests.* A cluster connection of the crate sends a request again by itself, and its caller
//!   does not learn of that. A request that may arrive twice is another request to the rules of the quorum
//!   (`quorum::Requests`).
//! - *The connection.* A waiting request occupies its connection. The crate chooses the connection of a request,
//!   and shares it among all requests to a server.
//! - *The identity.* One server has one vote, at whatever address it answers. So a new connection first asks
//!   for the node-id.
//!
//! The protocol, TLS sockets and single connections are the crate's. The rest can go when the crate hands out
//! connections for one server each, says when it sends a request again, and compares Sentinels by epoch.

pub(crate) mod address;
pub(crate) mod cluster;
pub(crate) mod endpoint;
pub(crate) mod failure;
pub(crate) mod identity;
pub(crate) mod node;
mod route;
pub(crate) mod sentinel;
mod server_connections;
mod socket;
mod tls;
pub(crate) mod waiting_connections;
pub(crate) mod wire;
