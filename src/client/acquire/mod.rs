//! Acquiring a lock.
//!
//! [`lock`]: which lock is wanted, and how long to wait for it. [`driver`]: runs an acquisition, and
//! releases everything if it is dropped half-way. [`holder`]: who holds a lock that was not acquired.

pub(crate) mod driver;
pub(crate) mod holder;
pub(crate) mod lock;
