//! The gate: contenders queue, and one has its turn.

use super::*;

#[test]
fn the_next_in_line_asks_all_nodes_at_once_and_has_won_with_their_first_answers() {
    let mut trial = next_in_line();
    trial.waited(2, Answer::Granted(Fence(120)));
    trial.is_pending();
    trial.waited(0, Answer::Granted(Fence(120)));
    trial.wins(120);
    trial.sends("");
}

#[test]
fn a_client_granted_before_it_was_told_asks_all_nodes_and_the_gate_last_without_turn() {
    let mut trial = queued(Forever);
    trial.waited(0, Answer::Granted(Fence(120)));
    trial.sends("1A120w 2A120w 0A1");
    trial.waited(1, Answer::Granted(Fence(120)));
    trial.wins(120);
}

#[test]
fn on_one_node_a_grant_ends_the_wait() {
    let mut trial = trial(plan(1, Forever));
    trial.sends("0A100");
    trial.hears(0, Answer::Denied);
    trial.sends("0A100w");
    trial.passes(10);
    trial.waited(0, Answer::Denied);
    trial.sends("0A100w");
    trial.passes(10);
    trial.waited(0, Answer::Granted(Fence(120)));
    trial.wins(120);
    trial.holds();
    assert_eq!(trial.until(), 10 + trial.lease.0 - trial.lease.0 / 100 - 2);
}

#[test]
fn what_was_granted_while_it_waited_becomes_a_whole_lease_soon() {
    let mut trial = trial(Plan { ttl: Millis(10_000), ..plan(1, Forever) });
    trial.sends("0A100");
    trial.hears(0, Answer::Denied);
    trial.sends("0A100w");
    trial.waited(0, Answer::Granted(Fence(120)));
    trial.holds();
    assert!(trial.until() < 10_000 - 1_000);
    trial.wakes();
    assert!(trial.now <= 20_000);
    trial.sends("0E");
    trial.hears(0, Answer::Extended);
    assert_eq!(trial.until(), trial.now / 1_000 + 10_000 - 102);
}

#[test]
fn a_client_that_does_not_renew_has_a_whole_lease_once() {
    let mut trial = trial(Plan { ttl: Millis(10_000), ..plan(1, Forever) });
    trial.sends("0A100");
    trial.hears(0, Answer::Denied);
    trial.sends("0A100w");
    trial.waited(0, Answer::Granted(Fence(120)));
    trial.holds();
    trial.hold().stop_renewing();
    trial.wakes();
    trial.sends("0E");
    trial.hears(0, Answer::Extended);
    trial.wakes();
    trial.is_lost(LossReason::NotRenewed);
    trial.sends("");
}

#[test]
fn a_client_that_does_not_renew_asks_until_a_majority_has_extended_it_once() {
    let mut trial = trial(Plan { ttl: Millis(10_000), ..plan(1, Try) });
    trial.sends("0A100");
    trial.grants(0, 120);
    trial.holds();
    trial.hold().stop_renewing();
    for ttl in [10_000, 20_000] {
        trial.now += 1_000;
        let now = Instant(trial.now);
        trial.hold().extend(Millis(ttl), now);
        trial.sends("0E");
        trial.hears(0, Answer::Silent);
        trial.wakes();
        trial.sends("0E");
        trial.hears(0, Answer::Extended);
        assert!(trial.until() > now.0 / 1_000 + ttl - ttl / 50);
    }
    trial.wakes();
    trial.is_lost(LossReason::NotRenewed);
    trial.sends("");
}

#[test]
fn a_grant_that_is_old_when_it_is_heard_is_asked_for_again_and_the_turn_is_kept() {
    let mut trial = next_in_line();
    trial.passes(TTL - 210);
    trial.waited(0, Answer::Granted(Fence(120)));
    trial.sends("0A1");
    trial.waited(1, Answer::Granted(Fence(120)));
    trial.is_pending();
    trial.sends("1A1");
    trial.grants(0, 120);
    trial.is_pending();
    trial.grants(1, 120);
    trial.wins(120);
}

#[test]
fn an_answer_counts_from_its_own_request() {
    let mut trial = next_in_line();
    let first = trial.waiting[&0];
    trial.passes(60);
    trial.hear(0, first, Answer::Silent);
    trial.waited(2, Answer::Unreachable);
    trial.wakes();
    trial.sends("0A120w 2A120w");
    trial.hear(0, first, Answer::Granted(Fence(120)));
    trial.waited(1, Answer::Granted(Fence(120)));
    trial.is_pending();
    trial.waited(0, Answer::Granted(Fence(120)));
    trial.wins(120);
}

#[test]
fn all_slices_ask_for_one_fence_and_one_lease() {
    let mut trial = next_in_line();
    for node in 0..3 {
        trial.waited(node, Answer::Denied);
        trial.sends(&format!("{node}A120w"));
    }
    trial.waited(1, Answer::Unreachable);
    trial.wakes();
    trial.sends("1A120w");
}

#[test]
fn the_client_with_the_gate_takes_the_turn() {
    let mut trial = asked(Forever);
    trial.hears(1, Answer::Denied);
    trial.hears(2, Answer::Denied);
    trial.grants(0, 100);
    trial.is_pending();
    trial.sends("1A100w 2A100w");
    trial.waited(1, Answer::Granted(Fence(100)));
    trial.wins(100);
}

#[test]
fn a_gate_that_is_there_is_waited_for() {
    let mut trial = queued(Forever);
    trial.passes(500);
    trial.sends("0P");
    trial.hears(0, Answer::Answered);
    trial.sends("");
}

#[test]
fn a_node_for_which_the_proposal_is_too_far_is_waited_for_without_one() {
    let mut trial = next_in_line();
    trial.waited(1, Answer::TooFar);
    trial.sends("1Aw");
}

#[test]
fn a_turn_ends_with_the_wait_when_a_majority_says_so() {
    let mut trial = next_in_line_by(plan(3, within(1_000)));
    // Earlier slices are no sign of the end.
    for node in 0..3 {
        trial.waited(node, Answer::Denied);
        trial.sends(&format!("{node}A120w"));
    }
    trial.now += 1_000_000;
    trial.waited(1, Answer::Denied);
    trial.is_pending();
    trial.waited(2, Answer::Denied);
    trial.sends("0F 1R 2R");
    trial.loses(Failure::Held);
}

#[test]
fn a_turn_without_a_majority_at_its_end_asks_once_more_for_at_most_one_time_out() {
    for (second, failure) in [(Answer::Silent, Failure::NoQuorum), (Answer::Denied, Failure::Held)]
    {
        let mut trial = next_in_line_by(plan(3, within(1_000)));
        trial.passes(1_000);
        trial.waited(0, Answer::Denied);
        trial.is_pending();
        trial.wakes();
        assert!(trial.now <= (1_000 + TIMEOUT / 3) * 1000, "{}", trial.now);
        trial.sends("0R 1F 2F 0A120 1A120 2A120");
        [Answer::Denied, second, Answer::Silent]
            .into_iter()
            .enumerate()
            .for_each(|(node, answer)| trial.hears(node, answer));
        trial.loses(failure);
    }
}

#[test]
fn a_turn_is_given_up_when_no_majority_can_be_reached_for_two_time_outs() {
    let mut trial = next_in_line();
    let lost = |trial: &mut Trial| {
        (1..3).for_each(|node| trial.waited(node, Answer::Unreachable));
    };
    for _ in 0..2 {
        lost(&mut trial);
        trial.sends("");
        trial.passes(TIMEOUT);
        trial.sends("1A120w 2A120w");
    }
    lost(&mut trial);
    trial.sends("0F 1F 2F");
}

/// The next in line renews its grant at the gate more often than nodes time out.
#[test]
fn a_turn_is_given_up_without_a_majority_though_one_node_answers_all_the_time() {
    let mut trial = trial(Plan { timeout: Millis(TTL), ..plan(3, Forever) });
    trial.sends("0A100 1A100 2A100");
    trial.hears(0, Answer::Denied);
    trial.grants(1, 100);
    trial.sends("1R 2F 0A101wt");
    trial.waited(0, Answer::Turn(Fence(119)));
    for _ in 0..30 {
        trial.passes(TTL / 10);
        let Machine::Trying(acquisition) = &trial.machine else { unreachable!("it has one") };
        if acquisition.missing_since().is_some() {
            return;
        }
        while let Some(send) = trial.polls() {
            let answer =
                if send.node == 0 { Answer::Granted(Fence(120)) } else { Answer::Unreachable };
            trial.hear(send.node, send.id, answer);
        }
    }
    panic!("it waits for a majority, and reports no outage");
}

#[test]
fn a_request_that_is_late_does_not_bring_back_a_lock_that_was_ended() {
    let mut trial = trial(plan(1, Forever));
    trial.sends("0A100");
    trial.hears(0, Answer::Denied);
    trial.sends("0A100w");
    trial.waited(0, Answer::Unreachable);
    trial.sends("0Ak");
    trial.hears(0, Answer::Silent);
    trial.wakes();
    trial.sends("0Ak");
    trial.grants(0, 120);
    trial.wins(120);
    trial.holds();
    trial.wakes();
    trial.sends("0E");
    trial.hears(0, Answer::Gone);
    trial.is_lost(LossReason::Ended);
}

#[test]
fn a_no_leaves_a_place_that_is_given_back() {
    let mut trial = queued(within(300));
    trial.waited(0, Answer::Turn(Fence(119)));
    trial.sends("1A120w 2A120w 0A120w");
    trial.waited(1, Answer::Denied);
    trial.sends("1A120w");
    trial.passes(300 + TIMEOUT);
    trial.sends("0F 1F 2F 0A120 1A120 2A120");
}

/// Only the next in line asks all nodes, and the gate may be the last one that answers.
#[test]
fn a_wait_that_the_gate_ends_tells_a_lock_that_is_held_from_an_outage() {
    for (answer, failure) in [(Answer::Silent, Failure::NoQuorum), (Answer::Denied, Failure::Held)]
    {
        let mut trial = queued(within(300));
        trial.passes(300);
        trial.waited(0, Answer::Denied);
        trial.sends("0R 0A101 1A101 2A101");
        trial.hears(0, Answer::Denied);
        trial.is_pending();
        (1..3).for_each(|node| trial.hears(node, answer));
        trial.loses(failure);
    }
}

#[test]
fn a_slice_that_ends_is_followed_by_the_next() {
    let mut trial = queued(within(300));
    trial.passes(299);
    trial.waited(0, Answer::Denied);
    trial.is_pending();
    trial.sends("0A101wt");
}

/// The gate is silent, so the client asks the other nodes.
#[test]
fn a_wait_that_the_gate_does_not_end_tells_a_lock_that_is_held_from_an_outage() {
    for (answer, failure) in [(Answer::Silent, Failure::NoQuorum), (Answer::Denied, Failure::Held)]
    {
        let mut trial = queued(within(300));
        trial.wakes();
        assert_eq!(trial.now, (300 + TIMEOUT.div_ceil(4)) * 1000);
        trial.sends("0F 0A101 1A101 2A101");
        trial.passes(TIMEOUT);
        (0..3).for_each(|node| trial.hears(node, if node == 0 { Answer::Silent } else { answer }));
        trial.loses(failure);
    }
}

/// Of the next in line. A node is down, and the others answer one after the other.
#[test]
fn a_wait_at_all_nodes_that_ends_was_for_the_holder() {
    let mut trial = next_in_line_by(plan(3, within(300)));
    trial.waited(2, Answer::Unreachable);
    trial.passes(300);
    trial.sends("2A120w");
    trial.waited(2, Answer::Unreachable);
    trial.waited(0, Answer::Denied);
    trial.is_pending();
    trial.waited(1, Answer::Denied);
    trial.loses(Failure::Held);
}

/// The next node is free and another has a holder. A client in time would be the next in line there.
#[test]
fn a_wait_that_is_over_is_not_the_next_in_line() {
    let mut trial = queued(within(300));
    trial.wakes();
    trial.sends("0F 0A101 1A101 2A101");
    trial.grants(1, 101);
    trial.hears(2, Answer::Denied);
    trial.wakes();
    trial.hears(0, Answer::Silent);
    trial.loses(Failure::Held);
}

/// The next request brings a proposal, because the gate's clock may be ahead.
#[test]
fn a_connection_that_breaks_costs_no_place() {
    let mut trial = queued(Forever);
    trial.waited(0, Answer::Unreachable);
    trial.sends("0A101kt");
    trial.hears(0, Answer::Denied);
    trial.sends("0A101wt");
    trial.waited(0, Answer::Turn(Fence(119)));
    trial.sends("1A120w 2A120w 0A120w");
}

#[test]
fn a_gate_that_cannot_be_reached_is_left_for_the_next() {
    let mut trial = queued(Forever);
    trial.waited(0, Answer::Unreachable);
    trial.sends("0A101kt");
    trial.hears(0, Answer::Unreachable);
    trial.sends("0F");
    trial.wakes();
    trial.sends("0A101 1A101 2A101");
    trial.hears(0, Answer::Unreachable);
    trial.hears(1, Answer::Denied);
    trial.grants(2, 101);
    trial.sends("0F 2R 1A102wt");
}

#[test]
fn a_gate_that_does_not_answer_is_left_for_the_next() {
    let mut trial = queued(Forever);
    trial.waited(0, Answer::Silent);
    trial.sends("0F 0A101 1A101 2A101");
    trial.hears(1, Answer::Denied);
    trial.grants(2, 101);
    trial.sends("0F 2R 1A102wt");
}

#[test]
fn a_gate_is_asked_whether_it_is_there_less_and_less_often() {
    let mut trial = queued(Forever);
    for pause in [500, 1_000, 2_000] {
        trial.wakes();
        trial.sends("0P");
        trial.hears(0, Answer::Answered);
        assert_eq!(trial.now % 500_000, 0);
        assert!(trial.now >= pause * 1_000);
    }
    trial.wakes();
    trial.sends("0P");
    trial.hears(0, Answer::Refused(Obstacle::Quarantine(Millis(TTL))));
    trial.sends("0F 0A101 1A101 2A101");
}

#[test]
fn a_gate_in_quarantine_is_left_if_the_others_may_be_a_majority() {
    let mut trial = queued(Forever);
    trial.waited(0, Answer::Unreachable);
    trial.sends("0A101kt");
    trial.hears(0, Answer::Refused(Obstacle::Quarantine(Millis(TTL))));
    trial.sends("0F 0A101 1A101 2A101");
    trial.hears(0, Answer::Refused(Obstacle::Quarantine(Millis(TTL))));
    trial.grants(2, 101);
    trial.hears(1, Answer::Denied);
    trial.sends("2R 1A102wt");
}

#[test]
fn the_client_with_the_gate_waits_where_it_was_denied_before_all_have_answered() {
    let mut trial = asked(Forever);
    trial.grants(0, 100);
    trial.sends("");
    trial.hears(2, Answer::Denied);
    trial.sends("2A100w");
    trial.waited(2, Answer::Granted(Fence(100)));
    trial.wins(100);
}
