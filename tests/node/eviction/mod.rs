//! Servers that run out of memory: what they evict is held all the same.

mod bound;
mod copies;
mod evicted;
mod load;
mod memory;
mod outside;
mod waiting;
