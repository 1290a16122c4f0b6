//! The proof of the quorum: the product's own code among a few nodes, and everything that can go
//! wrong.
//!
//! - [`model`]: every order of events, for two attempts or three. About fences.
//! - [`sim`]: long lives by chance, in virtual time. About everything else.
//! - [`bent`]: the rules with something wrong in them. Each must be noticed.
//! - [`others`]: what judges that others wrote say of lives in the simulation.

pub mod bent;
pub mod model;
pub mod others;
pub mod sim;
