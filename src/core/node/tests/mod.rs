//! A node judged against the contract.
//!
//! - `bench`: one node on a server in memory ([`crate::simulated`]), called with the words of the commands.
//! - `taking`, `waiting`, `keep`, `next_in_line`, `ending`, `final_tokens`, `events`, `evicted`, `fences`: one test a rule.
//! - `done`: a lock that is done for a while.
//! - `obey`: effects for a slot that is about to be this node's.
//! - `world`: two nodes, a primary and its replica, and all clients; `step`: the events there;
//!
//! `judge`: the contract, written once more and simply; `kept`: its queues and places;
//! `random`: long random runs of all that.
//! - `crashes`: crashes, promotions, leases of all lengths, and a model that stores every lease.

mod around;
mod bench;
mod crashes;
mod done;
mod durability;
mod ending;
mod events;
mod evicted;
mod fences;
mod final_tokens;
mod judge;
mod keep;
mod keep_around;
mod kept;
mod keys_ahead;
mod next_in_line;
mod obey;
mod random;
mod step;
mod taking;
mod waiting;
mod world;
