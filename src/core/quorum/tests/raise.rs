//! Fences that differ: a larger grant raises the other ones.

use super::*;

#[test]
fn a_grant_above_the_others_raises_them() {
    let mut trial = next_in_line();
    trial.waited(0, Answer::Granted(Fence(120)));
    trial.waited(1, Answer::Granted(Fence(130)));
    trial.sends("0E130");
    trial.hears(0, Answer::Extended);
    trial.wins(130);
}

#[test]
fn a_node_that_was_raised_in_time_counts_though_its_answer_comes_after_the_former_lease() {
    // Nodes may take so long to answer that the client does not ask again meanwhile.
    let mut trial = next_in_line_by(Plan { timeout: Millis(TTL), ..plan(3, Forever) });
    trial.passes(TTL * 3 / 10);
    trial.waited(0, Answer::Granted(Fence(120)));
    trial.waited(1, Answer::Granted(Fence(130)));
    trial.sends("0E130");
    trial.passes(TTL * 3 / 10);
    trial.sends("1A1");
    trial.grants(1, 130);
    trial.passes(TTL * 5 / 10);
    trial.is_pending();
    trial.hears(0, Answer::Extended);
    trial.wins(130);
}

#[test]
fn what_was_lost_while_it_waited_for_the_others_is_counted_as_it_is_granted_anew() {
    let mut trial = next_in_line();
    trial.waited(0, Answer::Granted(Fence(120)));
    trial.waited(1, Answer::Granted(Fence(125)));
    trial.sends("0E125");
    trial.hears(0, Answer::Gone);
    trial.is_pending();
    trial.sends("0A120w");
    trial.waited(0, Answer::Granted(Fence(131)));
    trial.sends("1E131");
    trial.hears(1, Answer::Extended);
    trial.wins(131);
}

#[test]
fn a_majority_whose_fences_are_too_far_apart_is_withdrawn_as_a_minority_is() {
    let mut trial = next_in_line();
    trial.waited(1, Answer::Granted(Fence(120)));
    trial.waited(2, Answer::Granted(Fence(100)));
    trial.sends("2E120");
    trial.hears(2, Answer::TooFar);
    trial.is_pending();
    trial.passes(TIMEOUT);
    trial.sends("0F 1R 2R");
}
