//! Ties: each of two has a node that the other lacks.

use super::*;

/// The next in line at node 0, which also has node 2.
fn tied() -> Trial {
    tied_by(plan(3, Forever))
}

fn tied_by(plan: Plan) -> Trial {
    let mut trial = next_in_line_by(plan);
    trial.waited(2, Answer::Granted(Fence(120)));
    trial.sends("");
    trial
}

/// Gives node 2 back, and waits for the answer.
fn gives_back() -> Trial {
    let mut trial = tied();
    trial.passes(TIMEOUT.div_ceil(4));
    trial.sends("0P 1P");
    trial.hears(0, Answer::Answered);
    trial.sends("2G");
    trial
}

#[test]
fn who_lacks_the_gate_gives_back_what_it_has_and_stands_in_line_for_it_anew() {
    let mut trial = gives_back();
    trial.hears(2, Answer::Answered);
    trial.sends("2A120w");
    trial.waited(0, Answer::Granted(Fence(120)));
    trial.is_pending();
    trial.waited(2, Answer::Granted(Fence(121)));
    trial.sends("0E121");
    trial.hears(0, Answer::Extended);
    trial.wins(121);
}

#[test]
fn a_time_out_longer_than_the_grants_last_leaves_time_to_give_them_back() {
    let mut trial = tied_by(Plan { timeout: Millis(10 * TTL), ..plan(3, Forever) });
    trial.passes(trial.lease.0.div_ceil(4));
    trial.sends("0P 1P");
    trial.hears(0, Answer::Answered);
    trial.sends("2G");
}

#[test]
fn what_is_given_back_does_not_count_although_the_node_has_not_answered_yet() {
    let mut trial = gives_back();
    trial.waited(0, Answer::Granted(Fence(120)));
    trial.is_pending();
    trial.sends("");
}

#[test]
fn a_node_that_has_forgotten_that_it_was_given_back_does_not_count() {
    let mut trial = gives_back();
    trial.hears(2, Answer::Answered);
    trial.sends("2A120w");
    trial.waited(2, Answer::Granted(Fence(120)));
    trial.waited(0, Answer::Granted(Fence(120)));
    trial.is_pending();
    // To ask it now would make that lease longer.
    trial.sends("");
    trial.waited(1, Answer::Granted(Fence(120)));
    trial.wins(120);
    trial.holds();
    trial.wakes();
    trial.sends("0E 1E 2A1");
    trial.hears(2, Answer::Granted(Fence(120)));
    trial.sends("");
    trial.hears(0, Answer::Extended);
    trial.hears(1, Answer::Extended);
    trial.wakes();
    trial.sends("0E 1E 2A1");
    trial.hears(2, Answer::Granted(Fence(119)));
    trial.sends("");
}

#[test]
fn a_node_that_refused_the_return_grants_what_it_had_granted() {
    let mut trial = gives_back();
    trial.hears(2, Answer::Refused(Obstacle::Busy));
    trial.sends("");
    trial.passes(TIMEOUT);
    trial.sends("2A120w");
    trial.waited(2, Answer::Granted(Fence(120)));
    trial.waited(0, Answer::Granted(Fence(120)));
    trial.wins(120);
}

#[test]
fn nobody_gives_back_what_it_has_for_a_node_that_is_not_there() {
    let mut trial = tied();
    trial.passes(TIMEOUT.div_ceil(4));
    trial.sends("0P 1P");
    trial.hears(0, Answer::Silent);
    trial.hears(1, Answer::Unreachable);
    trial.sends("");
}

#[test]
fn who_has_the_gate_in_time_gives_nothing_back() {
    let mut trial = tied();
    trial.passes(TIMEOUT.div_ceil(4) - 1);
    trial.sends("");
    trial.waited(0, Answer::Granted(Fence(120)));
    trial.wins(120);
}

#[test]
fn a_node_that_may_not_have_heard_that_it_was_given_back_is_asked_for_nothing() {
    let mut trial = gives_back();
    trial.hears(2, Answer::Unreachable);
    trial.sends("");
    trial.passes(TIMEOUT);
    trial.sends("");
    trial.waited(0, Answer::Granted(Fence(120)));
    trial.waited(1, Answer::Granted(Fence(120)));
    trial.wins(120);
    trial.holds();
    trial.wakes();
    trial.sends("0E 1E");
}

#[test]
fn a_late_answer_to_what_was_given_back_is_one() {
    let mut trial = gives_back();
    trial.hears(2, Answer::Silent);
    trial.passes(TIMEOUT);
    trial.sends("");
    trial.hears(2, Answer::Answered);
    trial.sends("2A120w");
}

#[test]
fn whoever_gives_up_releases_what_it_may_not_have_given_back() {
    let mut trial = gives_back();
    let Machine::Trying(acquisition) = &mut trial.machine else { unreachable!() };
    acquisition.abandon();
    trial.sends("0F 1F 2R");
}

#[test]
fn whoever_is_granted_again_at_once_what_it_gave_back_waits_longer_each_time() {
    let mut trial = gives_back();
    trial.hears(2, Answer::Answered);
    trial.sends("2A120w");
    trial.waited(2, Answer::Granted(Fence(121)));
    trial.passes(TIMEOUT.div_ceil(4));
    trial.sends("");
    trial.passes(TIMEOUT.div_ceil(4));
    trial.sends("0P 1P");
    trial.hears(0, Answer::Answered);
    trial.sends("2G");
}

/// The holder has the others, and node 0 has forgotten it.
#[test]
fn whoever_has_the_gate_alone_gives_it_back_when_a_majority_says_no() {
    let mut trial = next_in_line();
    trial.waited(0, Answer::Granted(Fence(120)));
    trial.sends("");
    trial.waited(1, Answer::Denied);
    trial.sends("1A120w");
    trial.passes(3 * TIMEOUT);
    assert!(!trial.sent().contains("0G"), "only one node has said no");
    trial.waited(2, Answer::Denied);
    trial.passes(0);
    assert!(trial.sent().contains("0G"));
    // The holder, which waited there, has it now.
    trial.hears(0, Answer::Answered);
    trial.sends("0A120w");
    trial.passes(2 * TIMEOUT);
    assert!(!trial.sent().contains('G'));
    trial.waited(0, Answer::Granted(Fence(121)));
    trial.passes(2 * TIMEOUT);
    assert!(!trial.sent().contains("0G"), "it is twice as patient the next time");
    trial.passes(2 * TIMEOUT);
    assert!(trial.sent().contains("0G"));
}
