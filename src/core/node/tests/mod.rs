//! A node judged against the contract.
//!
//! - `memory`: a host in memory, with a log of all that a node tells it.
//! - `bench`: one node on that host, spoken to in the words of the commands.
//! - `taking`, `waiting`, `keep`, `turn`, `ending`, `finals`, `outside`, `fences`: one test a rule.
//! - `obey`: what arrives for a slot that is about to be this node's.
//! - `world`: two nodes, a primary and its replica, and everybody who uses them; `step`: what
//!   can happen there; `judge`: the contract, written once more and naively, watching;
//!   `kept`: queues and places, there and here;
//!   `random`: long random runs of all that.
//! - `long`: long leases, crashes, and a model that remembers every lease.

mod ahead;
mod around;
mod bench;
mod ending;
mod fences;
mod finals;
mod judge;
mod keep;
mod keep_around;
mod kept;
mod long;
mod memory;
mod obey;
mod outside;
mod promise;
mod random;
mod step;
mod taking;
mod turn;
mod waiting;
mod world;
