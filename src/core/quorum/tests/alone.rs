//! One node, without an alternative.

use super::*;

#[test]
fn on_one_node_a_place_outlives_an_outage() {
    let mut trial = trial(plan(1, Forever));
    trial.sends("0A100");
    trial.hears(0, Answer::Denied);
    trial.sends("0A100w");
    trial.waited(0, Answer::Unreachable);
    for answer in [Answer::Unreachable, Answer::Silent] {
        trial.sends("0Ak");
        trial.hears(0, answer);
        trial.wakes();
    }
    trial.sends("0Ak");
    let Machine::Trying(acquisition) = &trial.machine else { unreachable!() };
    assert!(acquisition.missing_since().is_some());
    trial.hears(0, Answer::Denied);
    trial.sends("0Aw");
    let Machine::Trying(acquisition) = &trial.machine else { unreachable!() };
    assert!(acquisition.is_queued() && acquisition.missing_since().is_none());
    trial.waited(0, Answer::Granted(Fence(120)));
    trial.wins(120);
}

#[test]
fn where_a_request_to_wait_was_sent_again_the_release_is_final() {
    let mut trial = trial(plan(1, Forever));
    trial.sends("0A100");
    trial.hears(0, Answer::Denied);
    trial.sends("0A100w");
    trial.sent_again(0);
    trial.waited(0, Answer::Granted(Fence(120)));
    trial.wins(120);
    trial.holds();
    trial.hold().release();
    trial.sends("0F");
}

#[test]
fn a_client_of_the_only_node_that_refuses_asks_again_now_and_then_and_keeps_its_place() {
    for obstacle in [Obstacle::Quarantine(Millis(TTL)), Obstacle::Busy] {
        let mut trial = trial(plan(1, Forever));
        trial.sends("0A100");
        trial.hears(0, Answer::Refused(obstacle));
        trial.sends("");
        trial.wakes();
        trial.sends("0A100");
        trial.hears(0, Answer::Denied);
        trial.sends("0A100w");
        trial.waited(0, Answer::Unreachable);
        trial.sends("0Ak");
        for _ in 0..3 {
            trial.hears(0, Answer::Refused(obstacle));
            trial.sends("");
            trial.wakes();
            trial.sends("0Ak");
        }
        trial.hears(0, Answer::Granted(Fence(120)));
        trial.wins(120);
    }
}

#[test]
fn a_wait_that_ends_after_the_quarantine_of_the_only_node_was_for_the_holder() {
    let mut trial = trial(plan(1, within(3_000)));
    trial.sends("0A100");
    trial.hears(0, Answer::Refused(Obstacle::Quarantine(Millis(TTL))));
    trial.wakes();
    trial.sends("0A100");
    trial.hears(0, Answer::Denied);
    trial.sends("0A100w");
    trial.passes(3_000);
    trial.waited(0, Answer::Denied);
    trial.loses(Failure::Held);
}

#[test]
fn a_wait_that_the_only_node_does_not_end_was_for_no_holder() {
    let mut trial = trial(plan(1, within(300)));
    trial.sends("0A100");
    trial.hears(0, Answer::Denied);
    trial.sends("0A100w");
    trial.wakes();
    trial.sends("0F 0A100");
    trial.hears(0, Answer::Silent);
    trial.loses(Failure::NoQuorum);
}

#[test]
fn a_place_at_the_only_node_costs_no_pings() {
    let mut trial = trial(plan(1, Forever));
    trial.sends("0A100");
    trial.hears(0, Answer::Denied);
    trial.sends("0A100w");
    let Machine::Trying(acquisition) = &trial.machine else { unreachable!() };
    assert_eq!(acquisition.wake(), None);
}

#[test]
fn the_only_node_that_never_will_refuses_its_queued_client() {
    let mut trial = trial(plan(1, Forever));
    trial.sends("0A100");
    trial.hears(0, Answer::Denied);
    trial.sends("0A100w");
    trial.waited(0, Answer::Refused(Obstacle::Never));
    trial.loses(Failure::Refused);
}
