//! The state file: a node's knowledge after it has lost its data.

mod bound;
mod calls;
mod damage;
mod disk;
mod file;
mod load;
mod shared;
