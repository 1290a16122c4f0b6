//! Many locks, many clients, long lives; and the random lives that other tests use.

pub mod contenders;
mod expiries;
mod scale;
pub mod workload;
