//! The first attempt: all nodes are asked at once.

use super::*;

#[test]
fn equal_fences_need_no_second_round() {
    let mut trial = asked(Try);
    trial.grants(1, 100);
    trial.is_pending();
    trial.grants(0, 100);
    trial.wins(100);
    trial.sends("");
}

#[test]
fn one_node_is_a_majority_of_one() {
    let mut trial = trial(plan(1, Try));
    trial.sends("0A100");
    trial.grants(0, 250);
    trial.wins(250);
}

#[test]
fn nodes_below_the_claim_are_raised_to_it() {
    let mut trial = asked(Try);
    trial.grants(0, 100);
    trial.grants(1, 105);
    trial.is_pending();
    trial.sends("0E105");
    trial.hears(0, Answer::Extended);
    trial.wins(105);
}

#[test]
fn a_grant_above_the_claim_does_not_count() {
    let mut trial = asked(Try);
    trial.grants(0, 100);
    trial.grants(1, 105);
    trial.sends("0E105");
    trial.grants(2, 106);
    trial.is_pending();
    trial.hears(0, Answer::Gone);
    trial.sends("1E106");
    trial.hears(1, Answer::Gone);
    trial.is_pending();
    trial.sends("0R 1R 2R");
}

#[test]
fn a_claim_is_valid_from_the_first_request_on_and_less_than_its_lease() {
    let mut trial = asked(Try);
    trial.passes(10);
    trial.grants(0, 100);
    trial.passes(20);
    trial.grants(1, 100);
    trial.holds();
    assert_eq!(trial.until(), TTL - TTL / 100 - 2);
}

#[test]
fn answers_that_come_after_the_lease_make_no_claim() {
    let mut trial = asked(Try);
    trial.passes(TTL);
    trial.grants(0, 100);
    trial.grants(1, 100);
    trial.is_pending();
    trial.sends("0R 1R 2F");
}

#[test]
fn when_the_gate_denies_a_waiting_client_wins_nothing() {
    let mut trial = asked(Forever);
    trial.grants(1, 100);
    trial.grants(2, 100);
    trial.hears(0, Answer::Denied);
    trial.is_pending();
    trial.sends("1R 2R 0A101wt");
}

#[test]
fn without_a_wait_a_free_majority_is_enough() {
    for closed in 0..3 {
        let mut trial = asked(Try);
        trial.hears(closed, Answer::Denied);
        let mut free = (0..3).filter(|node| *node != closed);
        trial.grants(free.next().unwrap(), 100);
        trial.is_pending();
        trial.grants(free.next().unwrap(), 100);
        trial.wins(100);
    }
}

#[test]
fn without_a_wait_a_client_is_told_held_once_a_majority_has_denied() {
    let mut trial = asked(Try);
    trial.hears(0, Answer::Denied);
    trial.is_pending();
    trial.hears(2, Answer::Denied);
    trial.loses(Failure::Held);
}

/// Otherwise two clients with a node each would hold up one another for a node time-out.
#[test]
fn without_a_wait_a_minority_does_not_wait_for_a_node_that_was_silent_before() {
    let mut trial = trial(Plan { suspects: vec![false, false, true], ..plan(3, Try) });
    trial.sends("0A100 1A100 2A100");
    trial.grants(0, 100);
    trial.is_pending();
    trial.hears(1, Answer::Denied);
    trial.sends("0R 2F");
}

/// Otherwise each of three clients that ask at once could have one node, and none of them the lock.
#[test]
fn without_a_wait_a_client_with_a_minority_asks_again_a_few_times() {
    for [free, closed, last] in [[0, 1, 2], [1, 0, 2], [2, 0, 1]] {
        for answer in [Answer::Denied, Answer::Silent, Answer::Unreachable] {
            let mut trial = asked(Try);
            for again in 0..=3 {
                trial.grants(free, 100);
                trial.hears(closed, Answer::Denied);
                // A node that was silent before is not waited for.
                if again == 0 || answer == Answer::Denied {
                    trial.is_pending();
                    trial.hears(last, answer);
                }
                if again < 3 {
                    trial.is_pending();
                    trial.sent();
                    trial.wakes();
                    trial.sends("0A101 1A101 2A101");
                }
            }
            trial.loses(Failure::Held);
        }
    }
    let mut trial = asked(Try);
    trial.grants(2, 100);
    trial.hears(0, Answer::Denied);
    trial.hears(1, Answer::Denied);
    trial.sends("2R");
    trial.wakes();
    trial.sends("0A101 1A101 2A101");
    trial.grants(0, 101);
    trial.grants(1, 101);
    trial.wins(101);
}

#[test]
fn a_silent_gate_delays_a_waiting_client_for_the_grace_and_others_not_at_all() {
    let mut trial = asked(Forever);
    trial.grants(1, 100);
    trial.grants(2, 100);
    trial.is_pending();
    trial.wakes();
    assert_eq!(trial.now, TIMEOUT.div_ceil(4) * 1000);
    trial.wins(100);
    let mut trial = asked(Try);
    trial.grants(1, 100);
    trial.grants(2, 100);
    trial.wins(100);
}

#[test]
fn a_time_out_longer_than_the_grants_last_leaves_time_to_win_without_a_silent_gate() {
    let mut trial = asked_by(Plan { timeout: Millis(10 * TTL), ..plan(3, Forever) });
    trial.grants(1, 100);
    trial.grants(2, 100);
    trial.is_pending();
    trial.wakes();
    assert!(trial.now < TTL * 1000 / 2, "{} µs", trial.now);
    trial.wins(100);
}

#[test]
fn a_gate_that_has_failed_is_none() {
    let mut trial = asked(Try);
    trial.hears(0, Answer::Unreachable);
    trial.hears(1, Answer::Denied);
    trial.hears(2, Answer::Denied);
    trial.loses(Failure::Held);
}

#[test]
fn silent_nodes_are_released_too() {
    let mut trial = asked(Try);
    trial.grants(0, 100);
    let Machine::Trying(acquisition) = &mut trial.machine else { unreachable!() };
    acquisition.abandon();
    trial.sends("0R 1F 2F");
    trial.grants(1, 100);
    trial.loses(Failure::Held);
    trial.sends("");
}

#[test]
fn a_proposal_that_is_too_far_is_left_out() {
    let mut trial = asked(Try);
    trial.hears(2, Answer::TooFar);
    trial.sends("2A");
    trial.grants(0, 100);
    trial.grants(2, 100);
    trial.wins(100);
}

#[test]
fn a_node_for_which_the_proposal_was_too_far_is_raised_like_any_other() {
    let mut trial = asked(Try);
    trial.hears(0, Answer::TooFar);
    trial.sends("0A");
    trial.grants(0, 90);
    trial.grants(1, 100);
    trial.sends("0E100");
    trial.hears(0, Answer::Extended);
    trial.wins(100);
}

#[test]
fn a_node_that_is_far_ahead_is_left_behind() {
    let mut trial = asked(Try);
    trial.grants(0, 900);
    trial.grants(1, 100);
    trial.sends("1E900");
    trial.hears(1, Answer::TooFar);
    trial.is_pending();
    trial.grants(2, 100);
    trial.wins(100);
}

#[test]
fn no_node_there_is_an_error_without_a_wait() {
    let mut trial = asked(Try);
    trial.hears(0, Answer::Unreachable);
    trial.is_pending();
    trial.hears(1, Answer::Silent);
    trial.wakes();
    trial.loses(Failure::NoQuorum);
    trial.sends("0F 1F 2F");
}

#[test]
fn a_majority_that_never_will_refuses() {
    let mut trial = asked(Forever);
    trial.hears(0, Answer::Refused(Obstacle::Never));
    trial.hears(2, Answer::Refused(Obstacle::Never));
    trial.is_pending();
    trial.wakes();
    trial.loses(Failure::Refused);
}

/// All nodes are down, and it waits for so long; until `end`, or the acquisition's.
fn outage(wait: Patience, end: u64) -> Trial {
    let mut trial = asked(wait);
    while trial.now < end {
        for node in 0..3 {
            trial.hears(node, Answer::Unreachable);
        }
        if trial.verdict() != Verdict::Pending {
            break;
        }
        trial.sends("0F 1F 2F");
        trial.wakes();
        trial.sends("0A100 1A100 2A100");
    }
    trial
}

#[test]
fn a_wait_without_limit_lasts_through_an_outage() {
    let mut trial = outage(Forever, 3_600_000_000);
    trial.is_pending();
    let Machine::Trying(acquisition) = &trial.machine else { unreachable!() };
    assert!(acquisition.missing_since().is_some());
    trial.grants(0, 100);
    trial.grants(1, 100);
    trial.wins(100);
}

#[test]
fn a_limited_wait_ends_with_no_majority() {
    let trial = outage(within(600_000), 3_600_000_000);
    trial.loses(Failure::NoQuorum);
    assert!((600_000_000..602_000_000).contains(&trial.now), "{}", trial.now);
}

#[test]
fn a_quarantine_is_waited_for() {
    let mut trial = asked(Forever);
    for _ in 0..100 {
        trial.grants(0, 100);
        trial.hears(1, Answer::Refused(Obstacle::Quarantine(Millis(TTL))));
        trial.hears(2, Answer::Refused(Obstacle::Quarantine(Millis(TTL))));
        trial.is_pending();
        trial.sends("0R");
        trial.wakes();
        trial.sends("0A101 1A101 2A101");
    }
    trial.grants(0, 101);
    trial.grants(1, 101);
    trial.wins(101);
}

#[test]
fn no_client_queues_at_a_node_in_quarantine_beside_others() {
    for (wait, lost) in [(Try, true), (Forever, false)] {
        let mut trial = asked(wait);
        (0..3)
            .for_each(|node| trial.hears(node, Answer::Refused(Obstacle::Quarantine(Millis(TTL)))));
        trial.sends("");
        assert_eq!(trial.verdict() == Verdict::Lost(Failure::NoQuorum), lost);
    }
}

#[test]
fn a_fence_more_than_ten_minutes_ahead_of_the_clock_is_nothing_to_go_on_from() {
    let most = UNIX + 600_000_000;
    for (seen, proposal) in [(most - 1, most), (most, UNIX)] {
        let mut trial = trial(Plan { seen: Fence(seen), ..plan(1, Try) });
        trial.sends(&format!("0A{proposal}"));
    }
}

#[test]
fn a_look_before_its_time_ends_neither_the_grace_nor_a_rest() {
    let mut trial = asked(Forever);
    trial.grants(1, 100);
    trial.passes(1);
    trial.grants(2, 100);
    trial.is_pending();
    let mut trial = asked(Forever);
    (0..3).for_each(|node| trial.hears(node, Answer::Unreachable));
    trial.sends("0F 1F 2F");
    trial.passes(1);
    trial.sends("");
}

#[test]
fn a_fence_that_is_fixed_is_not_lowered_while_nodes_may_be_raised_to_it() {
    for raised in [Answer::Silent, Answer::Unreachable] {
        let mut trial = asked(Try);
        trial.grants(0, 100);
        trial.grants(1, 102);
        trial.sends("0E102");
        trial.hears(0, raised);
        trial.grants(2, 100);
        trial.is_pending();
        trial.sends("2E102");
        trial.hears(2, Answer::Extended);
        trial.wins(102);
    }
}

#[test]
fn a_grant_that_ended_with_its_connection_does_not_count() {
    let mut trial = asked(Try);
    trial.grants(0, 100);
    let time = trial.time();
    let Machine::Trying(acquisition) = &mut trial.machine else { unreachable!() };
    acquisition.cut_off(0, time);
    trial.grants(1, 100);
    trial.is_pending();
    trial.grants(2, 100);
    trial.wins(100);
}

#[test]
fn it_says_which_attempt_it_is_and_what_it_has_seen() {
    let told = |trial: &Trial| {
        let Machine::Trying(acquisition) = &trial.machine else { unreachable!() };
        let seen = (acquisition.attempt(), acquisition.seen(), acquisition.contended());
        (seen, acquisition.suspects().to_vec())
    };
    let mut trial = asked(Forever);
    trial.hears(2, Answer::Silent);
    assert_eq!(told(&trial), ((1, Fence(0), false), vec![false, false, true]));
    trial.hears(0, Answer::Denied);
    trial.grants(1, 107);
    trial.sends("1R 2F 0A108wt");
    assert_eq!(told(&trial), ((2, Fence(107), true), vec![false, false, true]));
    trial.waited(0, Answer::Turn(Fence(119)));
    trial.sends("1A120w 2A120w 0A120w");
    (0..2).for_each(|node| trial.waited(node, Answer::Granted(Fence(120))));
    trial.holds();
    assert_eq!((trial.hold().attempt(), trial.hold().fence()), (2, Some(Fence(120))));
}
