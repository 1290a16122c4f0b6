//! Judges of locks by other authors: two linearizability checkers, over models of locks and of the data under
//! them.
//!
//! - [`history`]: the lines that programs record of their requests and answers:
//!   docs/contributing/histories.md.
//! - [`lock`]: a mutex, a read-write lock and a semaphore, with leases that end and fences that grow.
//! - [`data`]: a register that is read and written under a lock.
//! - [`verdict`]: the checkers' verdict on a history.

pub mod data;
pub mod history;
pub mod lock;
pub mod verdict;

pub use history::{Asked, Heard, Line, Mode, read, write};
pub use verdict::{Accusation, judge};
