//! The state file: a node's knowledge after it has lost its data.

mod calls;
mod damage;
mod disk;
mod file;
mod load;
mod shared;
