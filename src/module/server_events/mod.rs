//! The server's events, and their effect on locks.
//!
//! Every handler here can run during another command, so it writes nothing. It answers waiters, updates the
//! index, and leaves the rest to the next iteration of the event loop ([`event_loop`](crate::event_loop)),
//! which comes before the server sleeps.
//!
//! - [`roles`]: the server becomes a replica or a primary, and replicas come.
//! - [`loading`]: the server loads a data set; [`data_set_load`]: one beside the present data set.
//! - [`migration`]: slots move as a whole; [`moving_slots`]: the slots that move now.
//! - [`keys`]: other commands change keys.
//! - [`disconnections`]: connections close, and blocked clients go.
//!
//! The differences between versions of servers are in [`dlock_core::servers::quirks`].

pub mod data_set_load;
pub mod disconnections;
pub mod keys;
pub mod loading;
pub mod migration;
pub mod moving_slots;
pub mod roles;
