//! Many lives, each from its seed. `make sim` has more.

use std::ops::Range;
use std::time::Instant;

use dlock_core::quorum::Sound;
use dlock_proof::sim::{self, Broken, Lives};

#[test]
fn whatever_fails_every_promise_is_kept() {
    keep_every_promise(Lives::Any, 0..400);
}

#[test]
fn clients_are_served_in_the_order_of_arrival_at_any_distance() {
    keep_every_promise(Lives::InOrder, 0..150);
}

#[test]
fn waiters_at_different_gates_do_not_delay_each_other() {
    keep_every_promise(Lives::AtAnyGate, 0..225);
}

#[test]
fn nodes_that_fail_over_keep_every_promise() {
    keep_every_promise(Lives::WithReplicas, 0..150);
}

#[test]
fn nodes_whose_addresses_change_keep_every_promise() {
    keep_every_promise(Lives::WithAddresses, 0..150);
}

#[test]
fn clients_that_treat_connections_as_the_library_does_keep_every_promise() {
    keep_every_promise(Lives::OfTheLibrary, 0..150);
}

#[test]
fn fences_far_ahead_and_clocks_that_were_break_no_promise() {
    keep_every_promise(Lives::UnderAttack, 0..150);
}

#[test]
fn disks_that_are_lost_break_no_promise() {
    keep_every_promise(Lives::LosingDisks, 0..150);
}

#[test]
fn locks_that_are_left_done_are_taken_once() {
    keep_every_promise(Lives::WithJobs, 0..150);
}

#[test]
fn evicted_locks_break_no_promise() {
    keep_every_promise(Lives::Evicting, 0..150);
}

#[test]
fn a_seed_is_a_life() {
    for (name, lives) in Lives::ALL {
        for seed in 0..3 {
            let run = || sim::run(lives, seed, Sound, None, false);
            assert_eq!(run().claims, run().claims, "{name} {seed}");
        }
    }
}

fn keep_every_promise(lives: Lives, seeds: Range<u64>) {
    let begun = Instant::now();
    let tally = sim::runs(lives, seeds, &Sound, None, |seed, Broken { promise, how }| {
        println!("{promise}: {how}\nto see it happen: {}", lives.told(seed));
    });
    println!("{tally}; {:.1?}", begun.elapsed());
    assert_eq!(tally.broken, 0);
}
