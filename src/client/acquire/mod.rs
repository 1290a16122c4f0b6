//! Acquiring: what is wanted, and the run of an acquisition.
//!
//! [`lock`]: what is wanted, and how long to wait for it. [`driver`]: runs an acquisition, and gives
//! everything back if it is dropped half-way. [`holder`]: who holds a lock that could not be had.

pub(crate) mod driver;
pub(crate) mod holder;
pub(crate) mod lock;
