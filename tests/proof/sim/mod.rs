//! The simulation: the product's own nodes and machines, in virtual time, and everything that can go wrong
//! between them. One seed decides it all.
//!
//! - `judge`: the promises that must hold.
//! - `truth`: the leases that a guard may rely on, derived from what the nodes have done.
//! - `world`: events, in the order of their time. `network`: connections, and how they break.
//! - `server`: a node with the keyspace and connections around it, and its ways to crash; its `state_file`,
//!   the `stream` to its replica, the `requests` that it carries out, and its flaws in `flaw`. `serving`: the
//!   events at servers.
//! - `replication`: nodes that are a primary and its replica; `replica`: that server; `fail_over`: it takes
//!   over.
//! - `knowledge`: the longest wait of a server that takes over for leases that it does not know.
//! - `task`: a client. `wishes`: what clients want. `life`: their course. `messages`: their requests, and the
//!   answers. `faults`: the faults.
//! - `attack`: a client with fences far ahead, and clocks that were ahead.
//! - `library`: the client library's use of connections.
//! - `lives`: kinds of lives. `map`: the distances between all, in lives that judge order and have no faults.
//! - `dice`, `clock`: chance, and clocks that do not run alike.

mod attack;
mod clock;
mod dice;
mod fail_over;
mod faults;
mod flaw;
mod judge;
mod knowledge;
mod library;
mod life;
mod lives;
mod map;
mod messages;
mod network;
mod replica;
mod replication;
mod requests;
mod server;
mod serving;
mod state_file;
mod stream;
mod task;
mod truth;
mod wishes;
mod world;

use std::fmt;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use dlock_core::quorum::Rules;
use dlock_judges::Line;

pub use flaw::Flaw;
pub use judge::Broken;
pub use lives::Lives;

use world::World;

/// The result of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The violation, if there was one.
    pub broken: Option<Broken>,
    /// The number of claims, and how many of them took a second round.
    pub claims: (u64, u64),
    /// The same, of those that began when nothing had failed for a while.
    pub calm_claims: (u64, u64),
    /// The number of hand-overs where order is judged, and how many took more than one round trip.
    pub hand_overs: (u64, u64),
}

/// A life. With `tells` it says what happens.
pub fn run<R: Rules>(
    lives: Lives,
    seed: u64,
    rules: R,
    flaw: Option<Flaw>,
    tells: bool,
) -> Outcome {
    let mut world = World::of(lives, seed, rules, flaw, tells);
    world.run();
    let World { judge, claims, calm_claims, hand_overs, .. } = world;
    Outcome { broken: judge.broken, claims, calm_claims, hand_overs }
}

/// Every claim of a life, for judges by other authors. The life goes on to its end, whatever is broken.
pub fn history<R: Rules>(lives: Lives, seed: u64, rules: R, flaw: Option<Flaw>) -> Vec<Line> {
    let mut world = World::of(lives, seed, rules, flaw, false);
    world.judge.goes_on = true;
    world.run();
    world.judge.history
}

/// The results of many runs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// The number of runs.
    pub runs: u64,
    /// The number of runs that violated something.
    pub broken: u64,
    /// The sum of each run's claims, as in [`Outcome`].
    pub claims: (u64, u64),
    /// The sum of each run's calm claims.
    pub calm_claims: (u64, u64),
    /// The sum of each run's hand-overs.
    pub hand_overs: (u64, u64),
}

/// Many lives, on two threads. Calls `accuse` for each that violated something.
pub fn runs<R: Rules + Sync>(
    lives: Lives,
    seeds: Range<u64>,
    rules: &R,
    flaw: Option<Flaw>,
    accuse: impl Fn(u64, Broken) + Sync,
) -> Tally {
    let next = AtomicU64::new(seeds.start);
    let tally = Mutex::new(Tally::default());
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return;
            }
            let outcome = run(lives, seed, rules.clone(), flaw, false);
            let mut tally = tally.lock().expect("no run panics while it counts");
            tally.runs += 1;
            tally.broken += u64::from(outcome.broken.is_some());
            add(&mut tally.claims, outcome.claims);
            add(&mut tally.calm_claims, outcome.calm_claims);
            add(&mut tally.hand_overs, outcome.hand_overs);
            drop(tally);
            outcome.broken.into_iter().for_each(|broken| accuse(seed, broken));
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(work);
        scope.spawn(work);
    });
    tally.into_inner().expect("no run panics while it counts")
}

fn add(sum: &mut (u64, u64), more: (u64, u64)) {
    *sum = (sum.0 + more.0, sum.1 + more.1);
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let share = |(claims, raised): (u64, u64)| 100.0 * raised as f64 / (claims as f64).max(1.0);
        let Tally { runs, broken, claims, calm_claims, hand_overs } = *self;
        write!(
            f,
            "{runs} lives, {broken} of them with a promise broken; {} claims, {:.1} % in two \
             rounds; {} of them in calm, {:.1} % in two rounds; {} hand-overs, {:.1} % in more than \
             one round trip",
            claims.0,
            share(claims),
            calm_claims.0,
            share(calm_claims),
            hand_overs.0,
            share(hand_overs)
        )
    }
}
