//! The model of the agents is searched to its end.

use std::time::Instant;

use dlock_proof::agents::Asks::{Acquire, Check, Done, Extend, Release};
use dlock_proof::agents::Setting;
use stateright::{Checker, Model};

#[track_caller]
fn holds(what: &str, setting: Setting) {
    let begun = Instant::now();
    let checker = setting.checker().threads(2).spawn_dfs().join();
    println!("{what}: all of {} states, {:.1?}", checker.unique_state_count(), begun.elapsed());
    checker.assert_properties();
}

#[test]
fn the_same_token_at_two_agents() {
    let two = Setting::new(&[(0, Acquire), (1, Acquire)]);
    holds("two agents, and a restart", Setting { restarts: 1, ..two });
}

#[test]
fn the_same_token_again_at_one_agent() {
    let again = Setting::new(&[(0, Acquire), (0, Acquire)]);
    holds("one agent, and a restart", Setting { restarts: 1, ..again });
}

#[test]
fn release_at_the_other_agent() {
    let release = Setting::new(&[(0, Acquire), (1, Release)]);
    holds("release beside another caller", Setting { others: 1, ..release.clone() });
    holds("release and leases that end", Setting { ticks: 2, ..release.clone() });
    holds("release and a message that arrives twice", Setting { twice: 1, ..release.clone() });
    holds("release and a restart", Setting { restarts: 1, counted: 1, ..release });
}

#[test]
fn extend_at_the_other_agent() {
    let extend = Setting::new(&[(0, Acquire), (1, Extend)]);
    holds("extend beside another caller", Setting { others: 1, ..extend.clone() });
    holds("extend and leases that end", Setting { ticks: 2, ..extend.clone() });
    holds("extend and a message that arrives twice", Setting { twice: 1, ..extend.clone() });
    holds("extend and a restart", Setting { restarts: 1, counted: 1, ..extend });
}

#[test]
fn check_after_a_release_elsewhere() {
    let check = Setting::new(&[(0, Acquire), (1, Release), (0, Check)]);
    holds("check", Setting { in_turn: true, ..check });
    holds("check elsewhere", Setting { ticks: 1, ..Setting::new(&[(0, Acquire), (1, Check)]) });
}

#[test]
fn acquire_after_a_release() {
    let again = Setting::new(&[(0, Acquire), (0, Release), (0, Acquire)]);
    holds("again", Setting { in_turn: true, ..again });
}

#[test]
fn release_at_the_agent_that_holds() {
    let release = Setting::new(&[(0, Acquire), (0, Release)]);
    holds("own release beside another caller", Setting { others: 1, ..release.clone() });
    holds("own release and leases that end", Setting { ticks: 2, ..release.clone() });
    holds("own release and a message that arrives twice", Setting { twice: 1, ..release.clone() });
    holds("own release and a restart", Setting { restarts: 1, ..release });
}

#[test]
fn a_hold_that_its_agent_repairs() {
    let of = |requests| Setting { forgets: 1, repairs: 1, ..Setting::new(requests) };
    holds("repairs and a release", of(&[(0, Acquire), (0, Release)]));
    holds("repairs and a release at the other agent", of(&[(0, Acquire), (1, Release)]));
    holds("repairs and an extend at the other agent", of(&[(0, Acquire), (1, Extend)]));
    holds("repairs and a check at the other agent", of(&[(0, Acquire), (1, Check)]));
    holds("repairs and a done", of(&[(0, Acquire), (0, Done)]));
}

#[test]
fn done_at_the_other_agent() {
    let done = Setting::new(&[(0, Acquire), (1, Done)]);
    holds("done beside another caller", Setting { others: 1, ..done.clone() });
    holds("done and a message that arrives twice", Setting { twice: 1, ..done.clone() });
    holds("done and a restart", Setting { restarts: 1, ..done });
}

#[test]
fn done_while_another_caller_takes_what_is_free_and_what_is_not_done() {
    let done = Setting::new(&[(0, Acquire), (0, Done)]);
    holds("done", Setting { others: 1, ticks: 2, in_turn: true, ..done });
}
