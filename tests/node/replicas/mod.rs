//! Replicas: their data, and their behaviour once they are promoted.

mod diskless;
mod failover;
pub mod promotion;
mod replication;
mod roles;
