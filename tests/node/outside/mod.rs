//! Commands that are not dlock's, at the key of a lock.

mod moved;
mod restore;
mod strays;
mod taken;
