//! Acquiring a lock.
//!
//! [`lock`]: a lock, and the ways to acquire it. [`driver`]: runs an acquisition, and releases
//! everything if it is dropped half-way. [`holder`]: finds the holder of a lock that was not acquired.

pub(crate) mod driver;
pub(crate) mod holder;
pub(crate) mod lock;
