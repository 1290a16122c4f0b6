//! The state file must say so before the node grants.
//!
//! A node can crash at any moment, and come back without the locks it held. Two things must survive that:
//! no fence may be handed out twice, and no lock may be granted while a forgotten lease may still run. A node
//! that wrote each grant down would be slow. So it writes *ahead*, rarely, and promises two bounds:
//!
//! 1. *No fence above this one has been handed out.* After a crash the node goes on above it.
//! 2. *No lease runs longer than this.* After a crash the node waits that long, in quarantine: then every
//!    lease that it may have forgotten has ended.
//!
//! A grant within both costs nothing. A grant beyond waits until the file says more: the [`Promise`] comes
//! first, the grant after it. The lease bound also shrinks again, when nobody waits. A primary tells its replicas
//! the same promise, for a replica that takes over may lack its primary's last grants.
//!
//! - [`fences`]: the counters of the fences; [`slot`]: which of them counts for a key; [`keys_ahead`]: keys
//!   whose fences are far ahead of the clock.
//! - [`clock`]: the wall clock, and the time that fences have reached.
//! - [`lease_bound`]: how long leases can run, a value; [`bound_tracker`]: what it must be, and when it is
//!   written.
//! - [`promise`]: both bounds, as they are written and told; [`record`]: the state file's text.
//! - [`durable`]: all of that together, which a node has.
//! - [`quarantine`]: when a node may have forgotten leases, and what follows.

pub mod bound_tracker;
pub mod clock;
pub mod durable;
pub mod fences;
pub mod keys_ahead;
pub mod lease_bound;
pub mod promise;
pub mod quarantine;
pub mod record;
pub mod slot;

pub use promise::Promise;
