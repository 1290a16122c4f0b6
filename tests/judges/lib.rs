//! Judges of locks that others wrote: two linearizability checkers, over models of locks and of what is changed
//! under them.
//!
//! - [`history`]: the lines that programs write about what they asked and heard: docs/contributing/histories.md.
//! - [`lock`]: a mutex, a read-write lock and a semaphore, with leases that end and fences that grow.
//! - [`data`]: a register that is read and written under a lock.
//! - [`verdict`]: what the checkers say of a history.

pub mod data;
pub mod history;
pub mod lock;
pub mod verdict;

pub use history::{Asked, Heard, Line, Mode, read, write};
pub use verdict::{Accusation, judge};
