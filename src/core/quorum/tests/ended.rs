//! When a hold has ended, and what is asked of it until then.

use super::*;

#[test]
fn what_ended_is_not_held_again_though_a_majority_says_so_later() {
    let mut trial = held();
    trial.wakes();
    trial.sends("0E 1E 2E");
    trial.hears(0, Answer::Extended);
    trial.now = trial.until() * 1000;
    // Asked for long ago, and so for longer than until now.
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
fn it_is_renewed_when_a_majority_has_granted_the_length_and_not_before() {
    let mut trial = held();
    let now = Instant(trial.now);
    let longer = Millis(10 * TTL);
    trial.hold().extend(longer, now);
    trial.sends("0E 1E 2E");
    trial.hears(0, Answer::Extended);
    assert!(!trial.hold().is_renewed(longer, now));
    trial.hears(1, Answer::Extended);
    assert!(trial.hold().is_renewed(longer, now));
    assert!(!trial.hold().is_renewed(longer, Instant(now.0 + 1)));
}

#[test]
fn where_a_still_longer_lease_is_refused_it_stays_as_long_as_a_majority_made_it() {
    let mut trial = held();
    let now = Instant(trial.now);
    let longer = Millis(10 * TTL);
    trial.hold().extend(longer, now);
    trial.sends("0E 1E 2E");
    (0..3).for_each(|node| trial.hears(node, Answer::Extended));
    trial.hold().extend(Millis(100 * TTL), now);
    trial.sends("0E 1E 2E");
    (0..2).for_each(|node| trial.hears(node, Answer::Refused(Obstacle::Never)));
    assert_eq!(trial.hold().ttl(), longer);
}

#[test]
fn a_grant_to_a_blocked_request_is_asked_for_over_the_connection_that_it_is_to_end_with() {
    let mut trial = trial(Plan { binds: true, ..plan(3, Some(0)) });
    trial.sends("0A100 1A100 2A100");
    trial.hears(0, Answer::Denied);
    trial.grants(1, 100);
    trial.sends("1R 2R 0A101wt");
    trial.waited(0, Answer::Turn(Fence(119)));
    trial.sends("1A120w 2A120w 0A120w");
    for node in 0..2 {
        trial.waited(node, Answer::Granted(Fence(120)));
        trial.is_pending();
        trial.sends(&format!("{node}A"));
        trial.grants(node, 120);
    }
    trial.wins(120);
    trial.holds();
    trial.sends("");
    trial.waited(2, Answer::Granted(Fence(120)));
    trial.sends("2A");
}
