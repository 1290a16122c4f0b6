//! A former version beside the present one: `make test-versions` builds it, and says in DLOCK_FORMER where it is.
//!
//! - [`former`]: its module and its program;
//! - [`clients`]: clients of each version at nodes of the other, and both for one lock;
//! - [`upgrades`]: nodes that change their version while locks are held; [`random_faults`]: while much else fails.
//!
//! The files that it wrote are read by the tests of the node: tests/node/restarts/former.rs.

mod clients;
mod former;
mod random_faults;
mod upgrades;
