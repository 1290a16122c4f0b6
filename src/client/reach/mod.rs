//! From a URL to a connection with the right server of the right node.
//!
//! - [`address`]: URLs. [`endpoint`]: a server's address and login. [`socket`]: the byte stream below.
//! - [`wire`]: a connection. [`server_connections`]: all connections to one server. [`waiting_connections`]: the
//!   limit of waiting connections.
//! - [`about`]: a server's report about itself. [`identity`]: the identity of the node at the other end.
//! - [`sentinel`]: the present primary. [`cluster`]: the server of a key. [`route`]: redirects of a request.
//!   [`node`]: one node of any kind.
//! - [`failure`]: errors of connections. [`tls`]: certificates, and errors about them.
//!
//! # Why the routing is our own
//!
//! The redis crate (1.8) follows Sentinels and clusters, too. A lock needs more than its interface shows:
//!
//! - *The primary.* The crate takes the first Sentinel's primary that reports this role. After a partition
//!   both primaries report it. Here the answer with the highest configuration epoch counts, and
//!   `+switch-master` takes effect at once and not at the next error.
//! - *Repeated requests.* A cluster connection of the crate repeats a request by itself, unseen by its
//!   caller. The rules of the quorum must distinguish a request that may arrive twice (`quorum::Requests`).
//! - *The connection.* A waiting request occupies its connection. The crate chooses the connection of a request,
//!   and shares it among all requests to a server.
//! - *The identity.* One server has one vote, at any of its addresses. So a new connection first asks for
//!   the node-id.
//!
//! The protocol, TLS sockets and single connections are the crate's. The rest can go when the crate hands out
//! connections to single servers, reports repeated requests, and compares Sentinels by epoch.

mod about;
pub(crate) mod address;
pub(crate) mod cluster;
pub(crate) mod endpoint;
pub(crate) mod failure;
pub(crate) mod identity;
pub(crate) mod node;
mod route;
pub(crate) mod sentinel;
mod server_connections;
pub(crate) mod socket;
mod tls;
pub(crate) mod waiting_connections;
pub(crate) mod wire;
