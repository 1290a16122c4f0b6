//! The length of leases: on which clock they run, what ends them from outside, and what the node
//! says of the longest.

mod bound;
mod expiry;
mod pauses;
mod time;
