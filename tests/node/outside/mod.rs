//! Commands that are not dlock's, at the key of a lock.

mod leftover_keys;
mod moved;
mod removals;
mod restore;
