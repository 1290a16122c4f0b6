//! The model is searched to its end; `make model` has larger ones.

use std::time::Instant;

use dlock_core::quorum::Sound;
use dlock_proof::model::{EXCLUSIVE, SHARED, Setting};
use stateright::{Checker, Model};

#[track_caller]
fn holds(what: &str, setting: Setting<Sound>) {
    let begun = Instant::now();
    let checker = setting.checker().threads(2).spawn_dfs().join();
    println!("{what}: all of {} states, {:.1?}", checker.unique_state_count(), begun.elapsed());
    checker.assert_properties();
}

#[test]
fn two_attempts_at_nodes_that_have_counted_differently() {
    holds("two attempts", Setting { counted: 2, ..Setting::new(Sound, &[EXCLUSIVE, EXCLUSIVE]) });
}

#[test]
fn two_attempts_at_nodes_too_far_apart() {
    let two = Setting::new(Sound, &[EXCLUSIVE, EXCLUSIVE]);
    holds("too far apart", Setting { counted: 2, reach: 0, ..two.clone() });
    holds("far apart", Setting { counted: 2, reach: 1, ..two });
}

#[test]
fn two_attempts_and_a_crash() {
    let two = Setting::new(Sound, &[EXCLUSIVE, EXCLUSIVE]);
    holds("a crash", Setting { crashes: 1, counted: 0, ..two });
}

#[test]
fn two_attempts_and_a_request_that_arrives_twice() {
    let two = Setting::new(Sound, &[EXCLUSIVE, EXCLUSIVE]);
    holds("a request twice", Setting { twice: 1, counted: 0, ..two });
}

#[test]
fn readers_and_writers() {
    holds("a reader and a writer", Setting::new(Sound, &[SHARED, EXCLUSIVE]));
    holds("two readers", Setting { counted: 0, ..Setting::new(Sound, &[SHARED, SHARED]) });
}
