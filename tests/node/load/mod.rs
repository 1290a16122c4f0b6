//! Many locks, many clients, long lives; and the random lives that other tests use.

pub mod contenders;
mod expiries;
pub mod workload;
