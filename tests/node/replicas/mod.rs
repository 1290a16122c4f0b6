//! Replicas: what they have, and what they do once they are promoted.

mod diskless;
mod failover;
pub mod promotion;
mod replication;
mod roles;
