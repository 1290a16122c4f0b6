//! The end of a hold, and the requests until then.

use super::*;

#[test]
fn what_ended_is_not_held_again_though_a_majority_says_so_later() {
    let mut trial = held();
    trial.wakes();
    trial.sends("0E 1E 2E");
    trial.hears(0, Answer::Extended);
    trial.now = trial.until() * 1000;
    // The renewed lease lasts beyond now, but the hold has ended.
    trial.hears(1, Answer::Extended);
    trial.is_lost(LossReason::NotRenewed);
}

#[test]
fn it_is_valid_until_its_limit_at_most_and_what_ended_it_stays_the_reason() {
    let mut trial = held();
    trial.hold().limit(Instant(500_000));
    assert_eq!(trial.until(), 500);
    trial.wakes();
    trial.sends("0E 1E 2E");
    (0..3).for_each(|node| trial.hears(node, Answer::Extended));
    assert_eq!(trial.until(), 500);
    trial.now = 500_000;
    trial.passes(0);
    trial.is_lost(LossReason::Limit);
    trial.hold().release();
    trial.is_lost(LossReason::Limit);
}

#[test]
fn nothing_is_extended_after_its_end() {
    let mut trial = held();
    trial.now = trial.until() * 1_000;
    let now = Instant(trial.now);
    trial.hold().extend(Millis(10 * TTL), now);
    trial.hold().hand_on(Millis(TTL), now);
    trial.hold().is_back(0, now);
    trial.sends("");
    trial.is_lost(LossReason::NotRenewed);
}

/// Held by nodes 0 and 1; node 2 has given this answer.
fn held_without(answer: Answer) -> Trial {
    let mut trial = asked(Try);
    (0..2).for_each(|node| trial.grants(node, 100));
    trial.holds();
    trial.hears(2, answer);
    trial
}

#[test]
fn a_node_that_had_it_not_vouches_from_its_grant_on_whatever_its_fence() {
    let mut denied = held_without(Answer::Denied);
    denied.wakes();
    denied.sends("0E 1E 2A100");
    let mut lost = held();
    lost.wakes();
    lost.sends("0E 1E 2E");
    lost.hears(2, Answer::Gone);
    lost.sends("2A100");
    for mut trial in [denied, lost] {
        trial.grants(2, 100);
        trial.until();
        trial.hears(0, Answer::Gone);
        trial.is_lost(LossReason::Ended);
    }
}

#[test]
fn leases_of_which_one_ends_after_another_began_leave_no_gap() {
    for begins_late in [false, true] {
        let mut trial = trial(plan(5, Try));
        trial.sends("0A100 1A100 2A100 3A100 4A100");
        (0..3).for_each(|node| trial.grants(node, 100));
        trial.holds();
        trial.grants(3, 100);
        trial.hears(4, Answer::Denied);
        trial.wakes();
        trial.sends("0E 1E 2E 3E 4A100");
        trial.passes(1);
        [0, 1, 3].iter().for_each(|node| trial.hears(*node, Answer::Extended));
        if !begins_late {
            trial.grants(4, 100);
        }
        // The lease of node 2 is not renewed, and over.
        trial.passes(700);
        trial.sends(if begins_late { "0E 1E 3E" } else { "0E 1E 3E 4E" });
        trial.hears(4, if begins_late { Answer::Granted(Fence(100)) } else { Answer::Extended });
        trial.hears(3, Answer::Gone);
        match begins_late {
            true => trial.is_lost(LossReason::Ended),
            false => assert!(trial.until() > TTL),
        }
    }
}

#[test]
fn a_node_that_was_not_raised_is_raised_with_the_next_renewal() {
    let mut trial = held_without(Answer::Granted(Fence(99)));
    trial.sends("2E100");
    trial.hears(2, Answer::Unreachable);
    trial.wakes();
    trial.sends("0E 1E 2E100");
}

#[test]
fn a_request_that_was_sent_twice_counts_from_the_sending_that_was_answered_and_makes_the_release_final()
 {
    let mut trial = asked(Try);
    trial.grants(0, 100);
    trial.now += 30_000;
    trial.sent_again(1);
    trial.grants(1, 100);
    trial.holds();
    trial.grants(2, 100);
    // The first of them ends by then, and the second later.
    assert_eq!(trial.until(), TTL - 12);
    trial.now += 1_000;
    trial.wakes();
    trial.sends("0E 1E 2E");
    (0..3).for_each(|node| trial.hears(node, Answer::Extended));
    trial.hold().release();
    trial.sends("0R 1F 2R");
}

#[test]
fn a_holder_that_hands_on_does_not_wait_at_a_node_that_is_gone() {
    let mut trial = held_without(Answer::Unreachable);
    let now = Instant(trial.now);
    trial.hold().hand_on(Millis(50), now);
    trial.sends("");
}
