//! Durability: the state file must cover a grant before the node makes it.
//!
//! A node can crash at any moment, and restart without its locks. Two rules must survive that: no fence is
//! handed out twice, and no lock is granted while a forgotten lease may still run. Writing each grant down
//! would be slow. So the node writes *ahead*, rarely, and promises two bounds:
//!
//! 1. *No fence above this one has been handed out.* After a crash the node goes on above it.
//! 2. *No lease runs longer than this.* After a crash the node waits that long, in quarantine: then every
//!    lease that it may have forgotten has ended.
//!
//! A grant within both bounds costs nothing. A grant beyond them waits until the file covers it: the
//! [`Promise`] comes first, the grant after it. The lease bound also shrinks again, when no grant waits. A
//! primary sends its replicas the same promise, because a promoted replica may lack its primary's last grants.
//!
//! - [`fences`]: the counters of the fences; [`slot`]: the counter of a key; [`keys_ahead`]: keys with fences
//!   far ahead of the clock.
//! - [`clock`]: the time that fences have reached.
//! - [`lease_bound`]: the longest run of leases, which grows and shrinks; [`cap`]: the longest lease that a
//!   primary may have granted.
//! - [`promise`]: both bounds, as dlock writes and sends them; [`record`]: the state file's text.
//! - [`durable`]: all of these together, as a part of the node.
//! - [`quarantine`]: the causes of a quarantine, and its effects.
//! - [`mark`]: the largest fence that a resource has seen.

pub mod cap;
pub mod clock;
pub mod durable;
pub mod fences;
pub mod keys_ahead;
pub mod lease_bound;
pub mod mark;
pub mod promise;
pub mod quarantine;
pub mod record;
pub mod slot;

pub use promise::Promise;
