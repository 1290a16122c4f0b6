//! Quarantine: a node that may have forgotten leases grants nothing new until they are over.

pub mod crash;
mod first;
mod reload;
mod rules;
mod setting;
mod shutdown;
