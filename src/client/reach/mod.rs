//! Getting there: from a URL to a connection with the right node.
//!
//! [`address`]: URLs. [`wire`]: one connection. [`identity`]: which node is at the other end.
//! [`node`]: all connections to one node. [`failure`]: what the errors of a connection mean, with
//! [`tls`] for those of TLS.

pub(crate) mod address;
pub(crate) mod failure;
pub(crate) mod identity;
pub(crate) mod node;
mod tls;
pub(crate) mod wire;
