//! The gate: contenders queue, and it is somebody's turn.

use super::*;

#[test]
fn when_its_turn_comes_the_others_are_asked_for_the_gates_fence_and_the_gate_again() {
    let mut trial = queued(0);
    trial.waited(0, Answer::Granted(Fence(120)));
    trial.sends("0A 1A120 2A120");
    trial.grants(1, 120);
    trial.is_pending();
    trial.grants(0, 120);
    trial.wins(120);
}

#[test]
fn one_that_still_holds_elsewhere_is_waited_for_shortly() {
    let mut trial = queued(0);
    trial.waited(0, Answer::Granted(Fence(120)));
    trial.sends("0A 1A120 2A120");
    trial.grants(0, 120);
    trial.hears(1, Answer::Denied);
    trial.hears(2, Answer::Denied);
    trial.sends("1A120w50 2A120w50");
    trial.waited(2, Answer::Granted(Fence(120)));
    trial.is_pending();
    trial.sends("2A");
    trial.grants(2, 120);
    trial.wins(120);
}

#[test]
fn when_even_that_fails_it_backs_off_and_queues_again() {
    let mut trial = queued(0);
    trial.waited(0, Answer::Granted(Fence(120)));
    trial.sends("0A 1A120 2A120");
    trial.grants(0, 120);
    trial.hears(1, Answer::Denied);
    trial.hears(2, Answer::Denied);
    trial.sends("1A120w50 2A120w50");
    trial.waited(1, Answer::Denied);
    trial.waited(2, Answer::Denied);
    trial.is_pending();
    trial.sends("0R");
    trial.wakes();
    trial.sends("1A121w0");
}

#[test]
fn whoever_has_the_gate_takes_the_turn() {
    let mut trial = asked(Some(0));
    trial.hears(1, Answer::Denied);
    trial.hears(2, Answer::Denied);
    trial.grants(0, 100);
    trial.is_pending();
    trial.sends("1A100w50 2A100w50");
    trial.waited(1, Answer::Granted(Fence(100)));
    trial.sends("1A");
    trial.grants(1, 100);
    trial.wins(100);
}

#[test]
fn the_wait_ends_when_the_gate_says_so() {
    let mut trial = queued(300);
    trial.waited(0, Answer::Denied);
    trial.loses(Failure::Held);
    trial.sends("0R");
}

#[test]
fn and_soon_after_its_end_when_the_gate_says_nothing() {
    let mut trial = queued(300);
    trial.wakes();
    trial.loses(Failure::Held);
    trial.sends("0R");
    assert_eq!(trial.now, (300 + TIMEOUT) * 1000);
}

#[test]
fn a_gate_that_does_not_answer_is_left_for_the_next() {
    let mut trial = queued(0);
    trial.wakes();
    trial.sends("0P");
    trial.hears(0, Answer::Done);
    trial.wakes();
    trial.sends("0P");
    trial.hears(0, Answer::Silent);
    trial.sends("0R 0A101 1A101 2A101");
    trial.hears(1, Answer::Denied);
    trial.grants(2, 101);
    trial.sends("0R 2R 1A102w0");
}

#[test]
fn a_gate_in_quarantine_is_left_if_the_others_may_be_a_majority() {
    let mut trial = queued(0);
    trial.wakes();
    trial.sends("0P");
    trial.hears(0, Answer::Refused(Why::Quarantine));
    trial.sends("0R 0A101 1A101 2A101");
    trial.hears(0, Answer::Refused(Why::Quarantine));
    trial.grants(2, 101);
    trial.hears(1, Answer::Denied);
    trial.sends("0R 2R 1A102w0");
}

/// There is one node, and it is in quarantine. Where should anybody queue but there?
fn queued_in_quarantine(wait: u64) -> Trial {
    let mut trial = trial(plan(1, Some(wait)));
    trial.sends("0A100");
    trial.hears(0, Answer::Refused(Why::Quarantine));
    trial.sends(&format!("0R 0A100w{wait}"));
    trial
}

#[test]
fn who_waits_for_the_only_node_waits_in_its_queue_during_a_quarantine() {
    let mut trial = queued_in_quarantine(0);
    trial.wakes();
    trial.sends("0P");
    trial.hears(0, Answer::Refused(Why::Quarantine));
    trial.is_pending();
    trial.waited(0, Answer::Granted(Fence(100)));
    trial.sends("0A");
    trial.grants(0, 100);
    trial.wins(100);
}

#[test]
fn a_wait_that_ends_during_the_quarantine_of_the_only_node_was_not_for_a_holder() {
    let mut trial = queued_in_quarantine(300);
    trial.waited(0, Answer::Denied);
    trial.loses(Failure::NoQuorum);
    let mut trial = queued_in_quarantine(3_000);
    trial.wakes();
    trial.sends("0P");
    trial.hears(0, Answer::Gone);
    trial.waited(0, Answer::Denied);
    trial.loses(Failure::Held);
}
