//! The hold: renewed, repaired, and lost.

use super::*;

#[test]
fn a_lease_is_renewed_when_a_third_of_it_is_over() {
    let mut trial = held();
    let until = trial.until();
    trial.wakes();
    assert_eq!(trial.now, until * 1000 / 3);
    trial.sends("0E 1E 2E");
    trial.hears(0, Answer::Extended);
    assert_eq!(trial.until(), until);
    trial.hears(1, Answer::Extended);
    assert_eq!(trial.until(), until + trial.now / 1000);
}

#[test]
fn a_node_that_has_lost_the_lease_is_asked_for_it_again() {
    let mut trial = held();
    trial.wakes();
    trial.sends("0E 1E 2E");
    trial.hears(2, Answer::Gone);
    trial.sends("2A100");
    trial.grants(2, 100);
    trial.until();
}

/// A restored grant may be older than another client's lock. An ACQUIRE would get its fence.
#[test]
fn in_a_quarantine_a_renewal_names_its_fence_as_always() {
    let mut trial = trial(plan(1, Try));
    trial.sends("0A100");
    trial.sent_again(0);
    trial.grants(0, 100);
    trial.holds();
    for _ in 0..2 {
        trial.wakes();
        trial.sends("0E");
        trial.hears(0, Answer::Refused(Obstacle::Quarantine(Millis(TTL))));
    }
    trial.wakes();
    trial.sends("0E");
    trial.hears(0, Answer::Extended);
    assert!(trial.until() > TTL);
}

/// A server that was promoted, or has forgotten the lease, waits no longer than it says.
#[test]
fn a_lease_counts_until_the_quarantine_of_its_node_ends() {
    let mut trial = held();
    let until = trial.until();
    trial.wakes();
    trial.sends("0E 1E 2E");
    for node in 0..2 {
        trial.hears(node, Answer::Refused(Obstacle::Quarantine(Millis(TTL / 2))));
    }
    assert!(trial.until() < until);
    assert!(trial.until() <= trial.now / 1000 + TTL / 2);
    // A node with the lease extends it in its quarantine, too.
    trial.wakes();
    trial.sends("0E 1E");
    trial.hears(2, Answer::Extended);
    trial.hears(0, Answer::Extended);
    assert!(trial.until() > until);
}

/// Held, since node 2 granted it again with a larger fence: all nodes have confirmed it after that.
fn mended() -> Trial {
    let mut trial = held();
    trial.wakes();
    trial.sends("0E 1E 2E");
    trial.hears(2, Answer::Gone);
    trial.sends("2A100");
    trial.grants(2, 107);
    (0..2).for_each(|node| trial.hears(node, Answer::Extended));
    trial.wakes();
    trial.sends("0E 1E 2E");
    (0..3).for_each(|node| trial.hears(node, Answer::Extended));
    trial.wakes();
    trial.sends("0E 1E 2E");
    trial
}

#[test]
fn a_node_that_gave_it_again_keeps_a_claim_that_stands() {
    let mut trial = mended();
    trial.hears(0, Answer::Gone);
    trial.sends("0A100");
    trial.until();
    trial.hears(0, Answer::Denied);
    trial.hears(1, Answer::Gone);
    trial.is_lost(LossReason::Ended);
}

#[test]
fn what_was_ended_everywhere_is_lost_though_a_node_gave_it_again_on_the_way() {
    let mut trial = held();
    trial.wakes();
    trial.sends("0E 1E 2E");
    trial.hears(0, Answer::Gone);
    trial.sends("0A100");
    trial.grants(0, 101);
    trial.until();
    // Both nodes may have lost the lock at once.
    trial.hears(1, Answer::Gone);
    trial.is_lost(LossReason::Ended);

    let mut trial = mended();
    trial.hears(2, Answer::Gone);
    trial.sends("2A100");
    trial.grants(2, 108);
    trial.hears(1, Answer::Gone);
    trial.is_lost(LossReason::Ended);
}

#[test]
fn a_node_that_confirms_it_after_another_gave_it_again_vouches_for_it() {
    let mut trial = held();
    trial.wakes();
    trial.sends("0E 1E 2E");
    trial.hears(0, Answer::Gone);
    trial.sends("0A100");
    trial.grants(0, 101);
    trial.hears(2, Answer::Extended);
    trial.wakes();
    trial.sends("0E 2E");
    trial.hears(0, Answer::Extended);
    trial.hears(2, Answer::Extended);
    // Node 2 still had the lock when node 0 had granted it again; node 1 has not confirmed that.
    trial.wakes();
    trial.sends("0E 2E");
    trial.hears(2, Answer::Gone);
    trial.sends("2A100");
    trial.grants(2, 102);
    trial.until();
    trial.hears(1, Answer::Gone);
    trial.is_lost(LossReason::Ended);
}

#[test]
fn a_lease_that_cannot_be_raised_to_the_claim_has_had_no_gap_until_its_last_answer() {
    let mut trial = trial(plan(5, Try));
    trial.sent();
    trial.hears(0, Answer::TooFar);
    trial.sends("0A");
    trial.grants(0, 90);
    (1..4).for_each(|node| trial.grants(node, 100));
    trial.holds();
    trial.grants(4, 100);
    trial.sends("0E100");
    trial.hears(0, Answer::TooFar);
    // Two others give it again, one after the other.
    for (lost, fence) in [(3, 107), (4, 108)] {
        trial.wakes();
        trial.sent();
        trial.hears(lost, Answer::Gone);
        trial.sent();
        trial.grants(lost, fence);
        trial.hears(0, Answer::TooFar);
        (1..5).filter(|node| *node != lost).for_each(|node| trial.hears(node, Answer::Extended));
    }
    trial.wakes();
    trial.sent();
    (1..5).for_each(|node| trial.hears(node, Answer::Extended));
    trial.hears(0, Answer::Gone);
    trial.until();
}

#[test]
fn a_lease_that_was_over_anyway_says_nothing_of_the_others() {
    let mut trial = held();
    let until = trial.until();
    trial.wakes();
    trial.sends("0E 1E 2E");
    trial.hears(1, Answer::Gone);
    trial.sends("1A100");
    trial.grants(1, 101);
    trial.hears(0, Answer::Extended);
    trial.hears(2, Answer::Silent);
    while trial.now < until * 1000 {
        trial.wakes();
        trial.sends("0E 1E 2E");
        (0..2).for_each(|node| trial.hears(node, Answer::Extended));
        trial.hears(2, Answer::Silent);
    }
    trial.hears(2, Answer::Gone);
    trial.sends("2A100");
    assert!(trial.until() > until);
}

#[test]
fn a_lease_that_was_over_long_ago_does_not_vouch() {
    let mut trial = trial(plan(5, Try));
    trial.sends("0A100 1A100 2A100 3A100 4A100");
    (0..3).for_each(|node| trial.grants(node, 100));
    trial.holds();
    (3..5).for_each(|node| trial.grants(node, 100));
    while trial.now < 2 * TTL * 1000 {
        trial.wakes();
        trial.sends("0E 1E 2E 3E 4E");
        trial.hears(0, Answer::Silent);
        (1..5).for_each(|node| trial.hears(node, Answer::Extended));
    }
    trial.wakes();
    trial.sends("0E 1E 2E 3E 4E");
    trial.now += 1_000;
    trial.hears(1, Answer::Gone);
    trial.sends("1A100");
    trial.grants(1, 101);
    trial.until();
    trial.hears(2, Answer::Gone);
    trial.is_lost(LossReason::Ended);
}

#[test]
fn one_connection_after_the_other_may_end_as_long_as_the_others_still_have_it() {
    // Node 2 was the last to grant, after the claim stood.
    let mut trial = held();
    for node in [0, 1, 2, 0] {
        trial.passes(1);
        let now = Instant(trial.now);
        trial.hold().cut_off(node, now);
        trial.sends(&format!("{node}A100"));
        trial.until();
        trial.passes(1);
        trial.grants(node, 101);
        let others = [0, 1, 2].into_iter().filter(|other| *other != node);
        let asked: Vec<_> = others.clone().map(|other| format!("{other}E")).collect();
        trial.sends(&asked.join(" "));
        others.for_each(|other| trial.hears(other, Answer::Extended));
    }
    trial.until();
}

#[test]
fn connections_that_end_one_after_the_other_may_have_ended_together() {
    let mut trial = held();
    let now = Instant(trial.now + 1_000);
    trial.now = now.0;
    trial.hold().cut_off(0, now);
    trial.sends("0A100");
    trial.grants(0, 101);
    trial.until();
    trial.hold().cut_off(1, now);
    trial.is_lost(LossReason::Ended);
}

#[test]
fn it_is_lost_when_a_majority_says_so() {
    let mut trial = held();
    trial.wakes();
    trial.sends("0E 1E 2E");
    trial.hears(0, Answer::Gone);
    trial.until();
    trial.hears(1, Answer::Gone);
    trial.is_lost(LossReason::Ended);
}

#[test]
fn it_is_lost_at_its_end_and_not_when_a_renewal_fails() {
    let mut trial = held();
    let until = trial.until();
    for _ in 0..50 {
        trial.wakes();
        if trial.hold().wake().is_none() {
            break;
        }
        trial.sends("0E 1E 2E");
        (0..3).for_each(|node| trial.hears(node, Answer::Silent));
    }
    trial.is_lost(LossReason::NotRenewed);
    assert_eq!(trial.now, until * 1000);
}

#[test]
fn what_ended_before_an_answer_came_has_ended() {
    let mut trial = held();
    trial.wakes();
    trial.sends("0E 1E 2E");
    trial.now = TTL * 1000;
    trial.hears(0, Answer::Extended);
    trial.is_lost(LossReason::NotRenewed);
}

#[test]
fn it_ends_at_its_limit_and_when_it_is_given_back() {
    let mut trial = held();
    trial.hold().limit(Instant(200_000));
    trial.wakes();
    trial.is_lost(LossReason::Limit);
    trial.hold().release();
    trial.sends("0R 1R 2R");

    let mut trial = held();
    trial.hold().release();
    trial.is_lost(LossReason::Released);
    trial.sends("0R 1R 2R");
}

#[test]
fn a_longer_lease_counts_from_the_requests_that_asked_for_it() {
    let mut trial = held();
    trial.wakes();
    trial.sends("0E 1E 2E");
    trial.hears(2, Answer::Extended);
    let now = Instant(trial.now);
    trial.hold().extend(Millis(10 * TTL), now);
    trial.sends("2E");
    trial.hears(0, Answer::Extended);
    trial.hears(1, Answer::Extended);
    assert!(trial.until() < trial.now / 1000 + TTL);
    trial.sends("0E 1E");
    trial.hears(0, Answer::Extended);
    trial.hears(1, Answer::Extended);
    assert!(trial.until() > trial.now / 1000 + 9 * TTL);
}

/// Held by nodes 0 and 2; node 1's former holder still holds, and it waits there.
fn handed_over() -> Trial {
    let mut trial = queued(Forever);
    trial.waited(0, Answer::Turn(Fence(119)));
    trial.sends("1A120w 2A120w 0A120w");
    trial.waited(0, Answer::Granted(Fence(120)));
    trial.waited(2, Answer::Granted(Fence(120)));
    trial.holds();
    trial
}

#[test]
fn a_node_that_was_late_with_its_grant_vouches_for_the_one_that_fails_next() {
    let mut trial = handed_over();
    trial.passes(30);
    trial.waited(1, Answer::Granted(Fence(120)));
    // Node 2 was not asked since, and restarts empty.
    trial.wakes();
    trial.sends("0E 1E 2E");
    trial.hears(2, Answer::Gone);
    trial.until();
}

#[test]
fn a_node_that_was_late_and_may_have_served_others_since_does_not_vouch() {
    let mut trial = handed_over();
    trial.passes(30);
    trial.waited(1, Answer::Granted(Fence(125)));
    // The other nodes are asked at once whether they have it still.
    trial.sends("0E 2E");
    trial.hears(2, Answer::Gone);
    trial.is_lost(LossReason::Ended);
}

#[test]
fn and_vouches_once_the_others_have_been_asked_again() {
    let mut trial = handed_over();
    trial.passes(30);
    trial.waited(1, Answer::Granted(Fence(125)));
    trial.sends("0E 2E");
    trial.hears(0, Answer::Extended);
    trial.hears(2, Answer::Extended);
    trial.wakes();
    trial.sends("0E 1E 2E");
    trial.hears(2, Answer::Gone);
    trial.until();
}

#[test]
fn nothing_is_left_to_be_settled_when_each_node_has_confirmed_or_refused() {
    let mut trial = handed_over();
    assert!(!trial.hold().is_settled(), "a request waits");
    trial.waited(1, Answer::Granted(Fence(120)));
    assert!(trial.hold().is_settled());
    trial.wakes();
    trial.sends("0E 1E 2E");
    assert!(!trial.hold().is_settled());
    trial.hears(0, Answer::Extended);
    trial.hears(1, Answer::Silent);
    trial.hears(2, Answer::Unreachable);
    assert!(trial.hold().is_settled());
}

#[test]
fn a_lock_that_is_handed_on_waits_where_the_one_before_holds_still_and_once() {
    let mut trial = asked(Forever);
    trial.grants(0, 100);
    trial.grants(2, 100);
    trial.holds();
    let now = Instant(trial.now);
    trial.hold().hand_on(Millis(50), now);
    trial.sends("");
    trial.hears(1, Answer::Denied);
    trial.sends("1A100b");
    assert!(!trial.hold().is_settled());
    trial.waited(1, Answer::Denied);
    trial.sends("");
    assert!(trial.hold().is_settled());
}

#[test]
fn a_lock_that_is_handed_on_has_its_whole_lease_first() {
    let plan = Plan { ttl: Millis(10_000), start_at_gate: true, ..plan(1, Forever) };
    let mut trial = trial(plan);
    trial.sends("0A100w");
    trial.waited(0, Answer::Granted(Fence(100)));
    trial.holds();
    let now = Instant(trial.now);
    trial.hold().hand_on(Millis(50), now);
    trial.sends("0E");
    assert!(!trial.hold().is_settled());
    trial.hears(0, Answer::Extended);
    assert!(trial.hold().is_settled() && trial.until() > 9_000);
}

/// Node 0 granted 100, and did not answer the raise to the claim's 101 in time, so it was asked for the lock
/// anew. Then node 4 lost the lease and granted it again.
fn raised_late() -> Trial {
    let mut trial = trial(plan(5, within(9_000)));
    trial.sends("0A100 1A100 2A100 3A100 4A100");
    trial.grants(0, 100);
    trial.hears(2, Answer::Denied);
    trial.grants(1, 100);
    trial.grants(4, 101);
    trial.sends("2A100w 0E101 1E101");
    trial.hears(1, Answer::Extended);
    trial.hears(0, Answer::Silent);
    trial.is_pending();
    trial.passes(50);
    trial.sends("0A100w");
    trial.grants(3, 101);
    trial.holds();
    trial.waited(2, Answer::Granted(Fence(101)));
    trial.sends("1E 3E 4E");
    [1, 3, 4].into_iter().for_each(|node| trial.hears(node, Answer::Extended));
    trial.wakes();
    trial.sends("1E 2E 3E 4E");
    trial.hears(4, Answer::Gone);
    trial.sends("4A101");
    trial.grants(4, 102);
    trial
}

#[test]
fn a_grant_that_was_raised_to_the_claim_by_a_late_request_is_the_same_one() {
    let mut trial = raised_late();
    trial.waited(0, Answer::Granted(Fence(101)));
    trial.until();
}

#[test]
fn a_grant_above_the_claim_or_below_the_one_before_is_another_one() {
    for fence in [102, 99] {
        let mut trial = raised_late();
        trial.waited(0, Answer::Granted(Fence(fence)));
        trial.is_lost(LossReason::Ended);
    }
}

#[test]
fn a_node_that_forgot_the_lock_is_waited_at_when_another_client_has_it() {
    let mut trial = held();
    trial.wakes();
    trial.sends("0E 1E 2E");
    trial.hears(0, Answer::Gone);
    trial.sends("0A100");
    trial.hears(0, Answer::Denied);
    trial.lease = Millis(TTL);
    trial.sends("0A100w");
    // Its place is kept meanwhile, and the next renewal keeps it, too.
    trial.waited(0, Answer::Denied);
    trial.sends("0A100w");
    (1..3).for_each(|node| trial.hears(node, Answer::Extended));
    trial.wakes();
    trial.sends("1E 2E");
    trial.waited(0, Answer::Refused(Obstacle::Quarantine(Millis(TTL))));
    (1..3).for_each(|node| trial.hears(node, Answer::Extended));
    trial.wakes();
    // A request that waits needs its own connection: at a free lock, none is made.
    trial.sends("0A100 1E 2E");
    trial.hears(0, Answer::Refused(Obstacle::Quarantine(Millis(TTL))));
    trial.sends("");
    (1..3).for_each(|node| trial.hears(node, Answer::Extended));
    trial.wakes();
    trial.sends("0A100 1E 2E");
    trial.hears(0, Answer::Denied);
    trial.sends("0A100w");
    trial.waited(0, Answer::Granted(Fence(100)));
    (1..3).for_each(|node| trial.hears(node, Answer::Extended));
    trial.wakes();
    trial.sends("0E 1E 2E");
}

#[test]
fn a_node_that_denied_the_first_attempt_is_not_waited_at() {
    let mut trial = asked(Try);
    (0..2).for_each(|node| trial.grants(node, 100));
    trial.holds();
    trial.hears(2, Answer::Denied);
    trial.sends("");
}

#[test]
fn an_extension_without_an_answer_is_asked_for_again_before_the_next_renewal() {
    let mut trial = held();
    let since = trial.now;
    trial.hold().extend(Millis(TTL), Instant(since));
    trial.sends("0E 1E 2E");
    (0..3).for_each(|node| trial.hears(node, Answer::Silent));
    trial.wakes();
    assert!(trial.now - since <= 50_000, "{}", trial.now);
    trial.sends("0E 1E 2E");
}
