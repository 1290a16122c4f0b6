//! Thousands of lives, each from its seed.

use std::time::Instant;

use dlock_core::quorum::Sound;
use dlock_proof::sim::{self, Broken};

#[test]
fn thousands_of_lives_keep_every_promise() {
    let begun = Instant::now();
    let tally = sim::runs(0..3_000, &Sound, None, |seed, broken| {
        let Broken { promise, how } = broken;
        println!("{promise}: {how}\nto see it happen: make sim SEED={seed}");
    });
    println!("{tally}; {:.1?}", begun.elapsed());
    assert_eq!(tally.broken, 0);
}

#[test]
fn who_comes_first_is_served_first_however_far_everybody_is() {
    let begun = Instant::now();
    let tally = sim::runs_in_order(0..1_000, &Sound, None, |seed, broken| {
        let Broken { promise, how } = broken;
        println!(
            "{promise}: {how}\nto see it happen: cargo run -p dlock-proof --bin prove -- order {seed}"
        );
    });
    println!("{tally}; {:.1?}", begun.elapsed());
    assert_eq!(tally.broken, 0);
}

#[test]
fn two_who_queue_at_different_gates_do_not_hold_each_other_up() {
    let begun = Instant::now();
    let tally = sim::runs_at_any_gate(0..1_000, &Sound, |seed, broken| {
        let Broken { promise, how } = broken;
        println!(
            "{promise}: {how}\nto see it happen: cargo run -p dlock-proof --bin prove -- gates {seed}"
        );
    });
    println!("{tally}; {:.1?}", begun.elapsed());
    assert_eq!(tally.broken, 0);
}

#[test]
fn who_waits_beside_the_deaf_is_served_soon() {
    let begun = Instant::now();
    let tally = sim::runs_beside_the_deaf(0..1_000, &Sound, |seed, broken| {
        let Broken { promise, how } = broken;
        println!(
            "{promise}: {how}\nto see it happen: cargo run -p dlock-proof --bin prove -- deaf {seed}"
        );
    });
    println!("{tally}; {:.1?}", begun.elapsed());
    assert_eq!(tally.broken, 0);
}

#[test]
fn nodes_that_fail_over_keep_every_promise() {
    let begun = Instant::now();
    let tally = sim::runs_with_replicas(0..1_000, &Sound, |seed, broken| {
        let Broken { promise, how } = broken;
        println!(
            "{promise}: {how}\nto see it happen: cargo run -p dlock-proof --bin prove -- replicas {seed}"
        );
    });
    println!("{tally}; {:.1?}", begun.elapsed());
    assert_eq!(tally.broken, 0);
}

#[test]
fn a_seed_is_a_life() {
    for seed in 0..50 {
        let run = || sim::run(seed, Sound, None, false);
        assert_eq!(run().claims, run().claims, "seed {seed}");
        let run = || sim::run_with_replicas(seed, Sound, None, false);
        assert_eq!(run().claims, run().claims, "seed {seed}, with replicas");
    }
}
