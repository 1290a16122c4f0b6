//! Servers that run out of memory and evict locks.

mod bound;
mod copies;
mod evicted;
mod load;
mod outside;
