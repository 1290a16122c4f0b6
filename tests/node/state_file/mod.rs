//! The state file: what a node has to know after it has lost its data.

mod bound;
mod calls;
mod damage;
mod disk;
mod file;
mod links;
mod load;
mod shared;
