//! The proof of the quorum: the product's own code among a few nodes, and everything that can go wrong.
//!
//! - [`model`]: every order of events, for two attempts or three. About fences.
//! - [`sim`]: long lives by chance, in virtual time. About everything else.
//! - [`bent`]: the rules, each with one defect that must be noticed.
//! - [`others`]: the verdicts of judges by other authors on lives of the simulation.

pub mod bent;
pub mod model;
pub mod others;
pub mod sim;
