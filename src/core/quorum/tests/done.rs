//! Locks that are done: the client that asks, and the holder.

use super::*;
use crate::quorum::DoneRecord;

fn done(fence: u64, left: u64) -> Answer {
    Answer::Done(DoneRecord { fence: Fence(fence), left: Millis(left) })
}

fn is_done(trial: &Trial, fence: u64, left: u64) {
    trial.loses(Failure::Done(DoneRecord { fence: Fence(fence), left: Millis(left) }));
}

// --- the client that asks ------------------------------------------------------------------------

#[test]
fn a_lock_is_done_when_a_majority_has_the_record_of_one_claim() {
    let mut trial = asked(Try);
    trial.hears(0, done(90, 500));
    trial.is_pending();
    trial.hears(1, done(90, 400));
    is_done(&trial, 90, 400);
    trial.sends("2F");
}

#[test]
fn a_lock_is_done_until_the_first_record_of_the_majority_is_over() {
    let mut trial = trial(plan(5, Try));
    trial.sends("0A100 1A100 2A100 3A100 4A100");
    for (node, left) in [(0, 100), (1, 900), (2, 300)] {
        trial.hears(node, done(90, left));
    }
    is_done(&trial, 90, 100);
}

#[test]
fn one_node_tells_of_its_record_alone() {
    let mut trial = trial(plan(1, Forever));
    trial.sends("0A100");
    trial.hears(0, done(90, 500));
    is_done(&trial, 90, 500);
}

#[test]
fn an_answer_that_may_make_a_majority_of_records_is_awaited() {
    for wait in [Try, Forever] {
        let mut trial = asked(wait);
        trial.hears(0, done(90, 500));
        trial.hears(2, Answer::Unreachable);
        trial.passes(TIMEOUT / 2);
        trial.is_pending();
        trial.sends("");
        trial.hears(1, done(90, 400));
        is_done(&trial, 90, 400);
    }
}

#[test]
fn records_of_two_claims_do_not_add_up() {
    let mut trial = asked(Try);
    trial.hears(0, done(90, 500));
    trial.hears(1, done(91, 500));
    trial.is_pending();
    // The later claim was made when the earlier was over; the third node may have its record.
    trial.sends("");
    trial.grants(2, 100);
    trial.sends("0A100o90");
    trial.grants(0, 101);
    trial.sends("1A101o91 2E101");
    trial.hears(2, Answer::Extended);
    trial.wins(101);
}

#[test]
fn a_record_that_cannot_be_a_majoritys_is_passed_over() {
    let mut trial = asked(Try);
    trial.grants(1, 100);
    trial.now += 1;
    trial.hears(0, done(90, 500));
    // The grant is older than the first sight of the record: the lock may have been broken there since.
    trial.sends("1A1");
    trial.grants(1, 100);
    trial.sends("");
    trial.grants(2, 100);
    trial.wins(100);
}

#[test]
fn a_record_does_not_keep_a_client_that_a_third_node_lacks() {
    let mut trial = trial(plan(5, Try));
    trial.sends("0A100 1A100 2A100 3A100 4A100");
    trial.hears(0, done(90, 500));
    trial.hears(1, Answer::Unreachable);
    (2..4).for_each(|node| trial.grants(node, 100));
    trial.sends("");
    trial.grants(4, 100);
    trial.wins(100);
}

#[test]
fn what_a_silent_node_may_have_makes_no_quorum() {
    for second in [Answer::Granted(Fence(100)), Answer::Denied] {
        let mut trial = asked(Try);
        trial.hears(0, done(90, 500));
        trial.hears(1, second);
        trial.sends("");
        // Neither done nor free nor held. Another try would wait for the silent node again.
        trial.hears(2, Answer::Silent);
        trial.loses(Failure::NoQuorum);
    }
}

#[test]
fn a_wait_beside_a_record_ends_a_time_out_after_its_limit() {
    for second in [Answer::Granted(Fence(100)), Answer::Denied] {
        let mut trial = trial(plan(3, within(200)));
        while trial.verdict() == Verdict::Pending {
            let asked = trial.sent().contains("0A");
            if asked {
                trial.hears(0, done(90, 60_000));
                trial.hears(1, second);
                trial.passes(TIMEOUT);
                trial.hears(2, Answer::Silent);
            } else {
                trial.wakes();
            }
        }
        trial.loses(Failure::NoQuorum);
        assert!((200_000..=250_000).contains(&trial.now), "{} µs", trial.now);
    }
}

#[test]
fn a_record_that_a_silent_node_may_have_keeps_no_client_from_the_news_of_a_holder() {
    let mut trial = asked(Try);
    trial.hears(0, done(90, 500));
    trial.hears(1, Answer::Denied);
    trial.is_pending();
    trial.hears(2, Answer::Denied);
    trial.loses(Failure::Held);
}

/// The record and one grant are too few, again and again, and so are the record and one denial.
#[test]
fn an_outage_beside_a_record_lasts_until_a_majority_grants_or_denies() {
    let mut trial = trial(plan(3, Forever));
    let missing = |trial: &Trial| match &trial.machine {
        Machine::Trying(acquisition) => acquisition.missing_since(),
        Machine::Holding(_) => unreachable!("it tries"),
    };
    let answer = |trial: &mut Trial, second: Answer, third: Answer| {
        let sent: Vec<Send> = core::iter::from_fn(|| trial.polls()).collect();
        for send in sent.iter().filter(|send| send.ask != Ask::Release) {
            trial.hear(send.node, send.id, [done(90, 60_000), second, third][send.node]);
        }
    };
    let (mut since, mut turns) = (None, 0);
    while trial.now < 20_000_000 {
        let second = [Answer::Granted(Fence(100)), Answer::Denied][turns % 2];
        answer(&mut trial, second, Answer::Silent);
        turns += 1;
        assert!(since.is_none() || missing(&trial) == since, "at {} µs", trial.now);
        since = missing(&trial);
        trial.passes(10);
    }
    assert!(since.is_some());
    for _ in 0..1_000 {
        answer(&mut trial, Answer::Denied, Answer::Denied);
        trial.passes(10);
    }
    assert_eq!(missing(&trial), None);
}

#[test]
fn a_holder_that_may_be_about_to_finish_is_waited_for() {
    let mut trial = asked(Forever);
    trial.hears(0, done(90, 500));
    trial.hears(1, Answer::Denied);
    trial.grants(2, 100);
    trial.sends("2R 1A101wt");
    trial.waited(1, done(90, 500));
    trial.sends("1R 0A101 1A101 2A101");
    trial.hears(0, done(90, 500));
    trial.hears(1, done(90, 500));
    is_done(&trial, 90, 500);
}

#[test]
fn the_next_in_line_hears_that_the_lock_is_done() {
    let mut trial = next_in_line();
    trial.waited(1, done(119, 500));
    trial.is_pending();
    trial.waited(0, done(119, 500));
    is_done(&trial, 119, 500);
}

#[test]
fn the_next_in_line_asks_a_node_with_a_record_again_now_and_then() {
    let mut trial = next_in_line();
    trial.waited(1, done(110, 500));
    trial.sends("");
    trial.passes(TIMEOUT);
    trial.sends("1A120w");
    trial.waited(1, Answer::Granted(Fence(120)));
    trial.waited(2, Answer::Granted(Fence(120)));
    trial.wins(120);
}

#[test]
fn the_next_in_line_waits_on_behind_a_record_that_the_holder_may_be_about_to_complete() {
    let mut trial = next_in_line();
    trial.waited(1, done(119, 500));
    trial.waited(2, Answer::Refused(Obstacle::Busy));
    // The client does not queue anew, because it would get its turn at once.
    trial.sends("");
    trial.passes(TIMEOUT);
    trial.sends("1A120w 2A120w");
    trial.waited(1, done(119, 450));
    trial.waited(0, done(119, 500));
    is_done(&trial, 119, 450);
}

#[test]
fn a_record_that_is_over_by_our_clock_is_not_taken_away() {
    let mut trial = next_in_line();
    trial.waited(1, done(110, 20));
    trial.now += 20_000;
    trial.waited(2, Answer::Denied);
    assert_eq!(trial.sent(), "1A120w 2A120w");
}

#[test]
fn a_client_may_take_a_lock_though_it_is_done() {
    let mut trial = trial(Plan { again: Some(Fence(90)), ..plan(3, Try) });
    trial.sends("0A100 1A100 2A100");
    trial.hears(0, done(90, 500));
    trial.hears(1, done(90, 500));
    trial.sends("0A100o90 1A100o90");
    trial.grants(0, 100);
    trial.grants(1, 100);
    trial.wins(100);
}

#[test]
fn a_client_that_takes_a_done_lock_again_heeds_later_records() {
    let mut trial = trial(Plan { again: Some(Fence(89)), ..plan(3, Try) });
    trial.sends("0A100 1A100 2A100");
    trial.hears(0, done(89, 500));
    trial.sends("0A100o89");
    trial.hears(1, done(90, 500));
    trial.hears(2, done(90, 500));
    trial.loses(Failure::Done(DoneRecord { fence: Fence(90), left: Millis(500) }));
}

#[test]
fn a_client_that_takes_a_done_lock_again_rests_while_its_only_node_is_in_quarantine() {
    let mut trial = trial(Plan { again: Some(Fence(90)), ..plan(1, Forever) });
    trial.sends("0A100");
    for _ in 0..3 {
        trial.hears(0, done(90, 500));
        trial.sends("0A100o90");
        trial.hears(0, Answer::Refused(Obstacle::Quarantine(Millis(TTL))));
        // The client does not queue there, because it would get DONE at once.
        trial.sends("");
        trial.wakes();
        trial.sends("0A100");
    }
}

// --- the holder ----------------------------------------------------------------------------------

fn finishes(length: u64) -> Trial {
    let mut trial = held();
    let now = trial.time().now;
    trial.hold().finish(Millis(length), now);
    trial.sends(&format!("0D100/{length} 1D100/{length} 2D100/{length}"));
    trial
}

#[test]
fn a_lock_is_left_done_when_a_majority_has_the_record() {
    let mut trial = finishes(60_000);
    trial.hears(0, Answer::Finished);
    trial.until();
    trial.hears(2, Answer::Finished);
    trial.is_lost(LossReason::Done);
    trial.hold().release();
    trial.sends("1F");
}

/// Its grant is on its way, and its record may be needed when another node loses its disk.
#[test]
fn a_node_that_has_not_answered_yet_gets_the_record_too() {
    let mut trial = asked(Try);
    (0..2).for_each(|node| trial.grants(node, 100));
    trial.holds();
    let now = trial.time().now;
    trial.hold().finish(Millis(500), now);
    trial.sends("0D100/500 1D100/500 2D100/500");
    trial.hears(0, Answer::Unreachable);
    trial.until();
    (1..3).for_each(|node| trial.hears(node, Answer::Finished));
    trial.is_lost(LossReason::Done);
}

#[test]
fn a_confirmation_that_comes_after_the_window_is_no_loss() {
    let mut trial = trial(plan(1, Try));
    trial.sends("0A100");
    trial.hears(0, Answer::Granted(Fence(100)));
    trial.wins(100);
    trial.holds();
    let now = trial.time().now;
    trial.hold().finish(Millis(4), now);
    trial.sends("0D100/4");
    trial.now += 5_000;
    trial.hears(0, Answer::Finished);
    trial.is_lost(LossReason::Released);
}

#[test]
fn a_node_that_does_not_answer_is_asked_again_until_the_lease_is_over() {
    let mut trial = finishes(60_000);
    trial.hears(0, Answer::Finished);
    trial.hears(1, Answer::Silent);
    trial.hears(2, Answer::Refused(Obstacle::Busy));
    trial.sends("");
    trial.wakes();
    // The record ends when the others do.
    let left = (60_000_300 - trial.now).div_ceil(1000);
    trial.sends(&format!("1D100/{left} 2D100/{left}"));
    while matches!(trial.hold().state(), State::Held(_)) {
        trial.wakes();
        trial.sent();
    }
    trial.is_lost(LossReason::NotRenewed);
    assert!(trial.now <= TTL * 1_000);
}

#[test]
fn a_node_that_has_lost_the_lease_gets_no_record() {
    let mut trial = finishes(60_000);
    trial.hears(0, Answer::Gone);
    trial.hears(1, Answer::Finished);
    trial.hears(2, Answer::Gone);
    trial.is_lost(LossReason::Ended);
}

#[test]
fn nodes_that_refuse_records_end_it_when_no_majority_is_left() {
    let mut trial = finishes(60_000);
    trial.hears(0, Answer::Refused(Obstacle::Never));
    trial.hears(1, Answer::Finished);
    trial.until();
    trial.hears(2, Answer::Refused(Obstacle::Never));
    trial.is_lost(LossReason::NotDone);
    trial.hold().release();
    trial.sends("0R 2R");
}

#[test]
fn a_record_that_is_shorter_than_the_lease_ends_the_claim_and_that_is_no_loss() {
    for length in [1, 2, 300] {
        let mut trial = finishes(length);
        // The answers may be lost, and the records be over then.
        assert!(trial.until() <= length);
        let now = trial.time().now;
        trial.hold().tick(now);
        while matches!(trial.hold().state(), State::Held(_)) {
            trial.wakes();
            trial.sent();
        }
        trial.is_lost(LossReason::Released);
        trial.hold().release();
        trial.sends("0F 1F 2F");
    }
}

#[test]
fn a_lock_that_is_left_done_is_not_renewed_or_repaired() {
    let mut trial = finishes(60_000);
    trial.hears(1, Answer::Gone);
    let now = trial.time().now;
    trial.hold().is_back(1, now);
    trial.hold().extend(Millis(TTL), now);
    trial.sends("");
}

#[test]
fn a_repair_passes_over_records_of_earlier_claims_and_not_over_its_own() {
    for (fence, again) in [(99, "1A100o99"), (100, ""), (101, "")] {
        let mut trial = held();
        trial.wakes();
        trial.sends("0E 1E 2E");
        trial.hears(1, Answer::Gone);
        // Earlier versions have neither AGAIN nor completion records.
        trial.sends("1A100");
        trial.hears(1, done(fence, 500));
        trial.sends(again);
    }
}
