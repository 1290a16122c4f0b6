//! Getting there: from a URL to a connection with the right server of the right node.
//!
//! [`address`]: URLs. [`endpoint`]: a server, to be connected to. [`socket`]: the bytes below. [`wire`]: a
//! connection. [`line`]: all connections to one server. [`identity`]: which node is at the other end. [`sentinel`]: which server is the primary now; [`cluster`]: which
//! has the key; [`route`]: where a request goes on. [`node`]: one node, whatever it is. [`failure`]:
//! what the errors of a connection mean. [`tls`]: who is trusted, and what went wrong with that.

pub(crate) mod address;
pub(crate) mod cluster;
pub(crate) mod endpoint;
pub(crate) mod failure;
pub(crate) mod identity;
mod line;
pub(crate) mod node;
mod route;
pub(crate) mod sentinel;
mod socket;
mod tls;
pub(crate) mod wire;
