//! The length of leases: their clock, what ends them from outside, and the node's figure for the longest.

mod bound;
mod expiry;
mod pauses;
mod time;
