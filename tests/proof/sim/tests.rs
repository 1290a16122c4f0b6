//! Thousands of lives, each from its seed.

use std::time::Instant;

use dlock_core::quorum::Sound;
use dlock_proof::sim::{self, Broken, Lives};

#[test]
fn thousands_of_lives_keep_every_promise() {
    keep_every_promise(Lives::Any, 3_000);
}

#[test]
fn who_comes_first_is_served_first_however_far_everybody_is() {
    keep_every_promise(Lives::InOrder, 1_000);
}

#[test]
fn two_who_queue_at_different_gates_do_not_hold_each_other_up() {
    keep_every_promise(Lives::AtAnyGate, 1_000);
}

#[test]
fn who_waits_beside_the_deaf_is_served_soon() {
    keep_every_promise(Lives::BesideTheDeaf, 1_000);
}

#[test]
fn nodes_that_fail_over_keep_every_promise() {
    keep_every_promise(Lives::WithReplicas, 1_000);
}

#[test]
fn nodes_whose_addresses_change_keep_every_promise() {
    keep_every_promise(Lives::WithAddresses, 1_000);
}

#[test]
fn clients_that_treat_connections_as_the_library_does_keep_every_promise() {
    keep_every_promise(Lives::OfTheLibrary, 1_000);
}

#[test]
fn a_seed_is_a_life() {
    for (name, lives) in Lives::ALL {
        for seed in 0..30 {
            let run = || sim::run(lives, seed, Sound, None, false);
            assert_eq!(run().claims, run().claims, "{name} {seed}");
        }
    }
}

fn keep_every_promise(lives: Lives, count: u64) {
    let begun = Instant::now();
    let tally = sim::runs(lives, 0..count, &Sound, None, |seed, Broken { promise, how }| {
        println!("{promise}: {how}\nto see it happen: {}", lives.told(seed));
    });
    println!("{tally}; {:.1?}", begun.elapsed());
    assert_eq!(tally.broken, 0);
}
