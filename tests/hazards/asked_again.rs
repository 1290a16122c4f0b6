//! A retry that finds its own lock.
