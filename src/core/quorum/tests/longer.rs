//! The length of a hold's lease: longer ones wanted, refused, and given up.

use alloc::vec;
use alloc::vec::Vec;

use super::*;
use crate::words::Time;

const SECOND: u64 = 1_000_000;
const LEASE: Millis = Millis(30_000);
const HOUR: Millis = Millis(3_600_000);
const TOO_LONG: Answer = Answer::TooLong(Millis(40_000));
const TOO_LONG_FOR_LESS: Answer = Answer::TooLong(Millis(5_000));
const NOT_DURABLE: Answer = Answer::Refused(Obstacle::NotDurable);

fn at(now: u64) -> Time {
    Time { now: Instant(now), unix: 1_000 * SECOND + now }
}

fn plan(nodes: usize) -> Plan {
    Plan {
        nodes,
        ttl: LEASE,
        timeout: Millis(1000),
        wait: Patience::Forever,
        start_at_gate: false,
        again: None,
        suspects: vec![false; nodes],
        seen: Fence(0),
        seed: 1,
    }
}

fn sent(poll: impl FnMut() -> Option<Send>) -> Vec<Send> {
    core::iter::from_fn(poll).collect()
}

fn lengths(sent: &[Send]) -> Vec<(usize, u64)> {
    sent.iter().map(|send| (send.node, send.ttl.0)).collect()
}

/// Every node grants what is proposed, at once.
fn held(nodes: usize) -> Hold {
    let mut acquisition = Acquisition::new(plan(nodes), at(0));
    let mut asked = sent(|| acquisition.poll()).into_iter();
    let granted = |send: &Send| match send.ask {
        Ask::Acquire { fence: Some(fence), wait: None } => Answer::Granted(fence),
        _ => panic!("{send:?}"),
    };
    for send in asked.by_ref().take(nodes / 2 + 1) {
        acquisition.answer(send.node, send.id, granted(&send), at(0));
    }
    assert!(matches!(acquisition.verdict(), Verdict::Won(_)));
    let mut hold = acquisition.into_hold(at(0));
    for send in asked {
        hold.answer(send.node, send.id, granted(&send), Instant(0));
    }
    hold
}

fn until(hold: &Hold) -> u64 {
    match hold.state() {
        State::Held(claim) => claim.until.0,
        State::Lost(why) => panic!("lost: {why:?}"),
    }
}

#[test]
fn a_lease_that_is_made_much_longer_is_not_lost_between_two_answers() {
    let mut hold = held(3);
    let before = until(&hold);
    hold.extend(HOUR, Instant(SECOND));
    assert_eq!(until(&hold), before);
    let asked = sent(|| hold.poll());
    assert_eq!(asked.len(), 3);
    hold.answer(0, asked[0].id, Answer::Extended, Instant(SECOND));
    assert_eq!(until(&hold), before, "a majority has the old lease still");
    hold.answer(1, asked[1].id, Answer::Extended, Instant(SECOND));
    let hour = HOUR.0 * 1000;
    assert_eq!(until(&hold), SECOND + hour - hour / 100 - 2_000);
}

#[test]
fn a_caller_that_extends_during_a_renewal_does_not_wait_for_the_next_one() {
    let mut hold = held(1);
    let due = hold.wake().unwrap();
    hold.tick(due);
    let renewal = sent(|| hold.poll());
    let later = Instant(due.0 + 1);
    hold.extend(LEASE, later);
    assert_eq!(sent(|| hold.poll()), [], "one request at a time");
    hold.answer(0, renewal[0].id, Answer::Extended, later);
    assert_eq!(hold.extended(), None);
    extended(&mut hold, &[0], later);
    assert_eq!(hold.extended(), Some(Ok(())));
    assert_eq!(sent(|| hold.poll()), []);
}

#[test]
fn a_longer_lease_without_an_answer_is_asked_for_again_before_the_old_one_ends() {
    let mut hold = held(1);
    let end = until(&hold);
    hold.extend(HOUR, Instant(SECOND));
    let asked = sent(|| hold.poll());
    hold.answer(0, asked[0].id, Answer::Silent, Instant(2 * SECOND));
    let again = hold.wake().unwrap();
    assert!(again.0 < end / 2 + SECOND, "{again:?}, and it ends at {end}");
    hold.tick(again);
    assert_eq!(sent(|| hold.poll()).len(), 1);
}

/// Each of these requests is sent, and no node answers.
fn silence(hold: &mut Hold, now: Instant) {
    for send in sent(|| hold.poll()) {
        hold.answer(send.node, send.id, Answer::Silent, now);
    }
}

fn extended(hold: &mut Hold, nodes: &[usize], now: Instant) {
    for send in sent(|| hold.poll()).iter().filter(|send| nodes.contains(&send.node)) {
        hold.answer(send.node, send.id, Answer::Extended, now);
    }
}

#[test]
fn requests_that_were_never_answered_do_not_make_a_longer_lease_shorter() {
    let mut hold = held(3);
    let due = hold.wake().unwrap();
    hold.tick(due);
    silence(&mut hold, due);
    let now = Instant(due.0 + SECOND);
    hold.extend(HOUR, now);
    extended(&mut hold, &[0, 1, 2], now);
    assert_eq!(hold.extended(), Some(Ok(())));
    assert!(until(&hold) > now.0 + HOUR.0 * 900, "a majority has granted it for an hour");
}

#[test]
fn a_renewal_is_due_well_before_the_end_though_the_usual_lease_is_long() {
    let mut hold = held(3);
    hold.extend(HOUR, Instant(SECOND));
    extended(&mut hold, &[0, 1], Instant(SECOND));
    let due = hold.wake().unwrap();
    assert!(due.0 > 1_000 * SECOND, "{due:?}");
    // Node 2 has the first lease, and a node with the longer one loses it.
    let now = Instant(2 * SECOND);
    hold.extend(HOUR, now);
    let asked = sent(|| hold.poll());
    let gone = asked.iter().find(|send| send.node == 0).unwrap();
    hold.answer(0, gone.id, Answer::Gone, now);
    let end = until(&hold);
    assert!(end < 31 * SECOND, "{end}");
    let due = hold.wake().unwrap();
    assert!(due.0 < end / 2, "due at {due:?}, and it ends at {end}");
}

#[test]
fn a_node_that_refuses_a_longer_lease_has_no_vote_and_undoes_nothing() {
    for refusal in [TOO_LONG, NOT_DURABLE] {
        let mut hold = held(3);
        hold.extend(HOUR, Instant(SECOND));
        let asked = sent(|| hold.poll());
        hold.answer(0, asked[0].id, refusal, Instant(SECOND));
        let less = sent(|| hold.poll());
        assert_eq!(lengths(&less), [(0, LEASE.0)], "the node keeps the lease in use");
        hold.answer(0, less[0].id, Answer::Extended, Instant(SECOND));
        for send in &asked[1..] {
            assert_eq!((hold.ttl(), hold.extended()), (LEASE, None));
            hold.answer(send.node, send.id, Answer::Extended, Instant(SECOND));
        }
        assert_eq!(hold.extended(), Some(Ok(())));
        assert_eq!(hold.ttl(), HOUR);
        assert!(until(&hold) > HOUR.0 * 900);
    }
}

#[test]
fn a_node_that_refuses_the_length_and_grants_to_another_is_waited_at_for_what_it_accepts() {
    let mut hold = held(3);
    let due = hold.wake().unwrap();
    hold.tick(due);
    let asked = sent(|| hold.poll());
    hold.answer(0, asked[0].id, Answer::Gone, due);
    for answer in [TOO_LONG_FOR_LESS, Answer::Denied, Answer::Denied] {
        let [ask] = sent(|| hold.poll())[..] else { panic!("one request") };
        hold.answer(0, ask.id, answer, due);
    }
    let [waits] = sent(|| hold.poll())[..] else { panic!("one request") };
    assert!(waits.ask.blocks() && waits.ttl == Millis(5_000), "{waits:?}");
}

#[test]
fn a_node_whose_limit_is_no_shorter_than_an_extension_does_not_refuse_it() {
    let mut hold = held(3);
    let due = hold.wake().unwrap();
    hold.tick(due);
    let asked = sent(|| hold.poll());
    // The lease is longer than what the nodes accept by now.
    hold.extend(Millis(15_000), due);
    for (node, limit) in [(1, 10_000), (0, 20_000)] {
        hold.answer(node, asked[node].id, Answer::TooLong(Millis(limit)), due);
        let less = sent(|| hold.poll());
        assert_eq!((lengths(&less), hold.extended()), (vec![(node, limit)], None));
        hold.answer(node, less[0].id, Answer::Extended, due);
    }
    hold.answer(2, asked[2].id, Answer::Extended, due);
    extended(&mut hold, &[2], due);
    assert_eq!(hold.extended(), Some(Ok(())));
}

#[test]
fn a_longer_lease_that_a_majority_refuses_is_given_up_and_the_lock_held_as_it_was() {
    for (refusal, accepted) in [(TOO_LONG, 40_000), (NOT_DURABLE, LEASE.0)] {
        let mut hold = held(3);
        hold.extend(HOUR, Instant(SECOND));
        let asked = sent(|| hold.poll());
        hold.answer(0, asked[0].id, refusal, Instant(SECOND));
        assert_eq!(hold.extended(), None);
        hold.answer(1, asked[1].id, refusal, Instant(SECOND));
        assert_eq!((hold.ttl(), hold.extended()), (LEASE, Some(Err(Millis(accepted)))));
        until(&hold);
        // Nodes shorten no lease, so none is asked for more before a majority has agreed.
        assert_eq!(lengths(&sent(|| hold.poll())), [(0, LEASE.0), (1, LEASE.0)]);
        hold.release();
        assert!(
            sent(|| hold.poll()).iter().all(|send| send.ttl == LEASE),
            "no node has a longer one"
        );
    }
}

#[test]
fn a_refused_extension_renews_no_lease_that_is_not_renewed() {
    let mut hold = held(1);
    hold.stop_renewing();
    hold.extend(HOUR, Instant(SECOND));
    let asked = sent(|| hold.poll());
    hold.answer(0, asked[0].id, TOO_LONG, Instant(SECOND));
    assert_eq!((hold.ttl(), sent(|| hold.poll())), (LEASE, vec![]));
    assert_eq!(hold.wake(), Some(Instant(until(&hold))), "it ends with its lease");
    assert_eq!(hold.extended(), Some(Err(Millis(40_000))));
    let now = Instant(2 * SECOND);
    hold.extend(Millis(20_000), now);
    extended(&mut hold, &[0], now);
    assert_eq!((hold.extended(), hold.extended()), (Some(Ok(())), None));
    assert_eq!(hold.wake(), Some(Instant(until(&hold))));
}

#[test]
fn a_refusal_takes_back_no_extension_that_was_granted_before() {
    let mut hold = held(1);
    let minute = Millis(60_000);
    hold.extend(minute, Instant(SECOND));
    extended(&mut hold, &[0], Instant(SECOND));
    assert_eq!(hold.extended(), Some(Ok(())));
    let now = Instant(2 * SECOND);
    hold.extend(HOUR, now);
    let asked = sent(|| hold.poll());
    hold.answer(0, asked[0].id, Answer::TooLong(minute), now);
    assert_eq!((hold.extended(), hold.ttl()), (Some(Err(minute)), minute));
    extended(&mut hold, &[0], now);
    // The limit was lowered, and this caller wants less.
    let now = Instant(3 * SECOND);
    hold.extend(LEASE, now);
    let asked = sent(|| hold.poll());
    hold.answer(0, asked[0].id, TOO_LONG, now);
    assert_eq!((hold.extended(), hold.ttl()), (None, minute));
    extended(&mut hold, &[0], now);
    assert_eq!(hold.extended(), Some(Ok(())));
}

#[test]
fn a_renewal_that_is_refused_is_repeated_at_once_with_the_longest_lease_that_the_node_accepts() {
    for limits in [&[10_000][..], &[5_000, 20_000, 20_000], &[3_000, 4_000, 5_000, 4_000, 3_000]] {
        let mut hold = held(limits.len());
        let mut due = hold.wake().unwrap();
        // Each renewal asks for the whole lease first: the limit may have been raised.
        for _ in 0..3 {
            hold.tick(due);
            for (send, limit) in sent(|| hold.poll()).iter().zip(limits) {
                assert_eq!(send.ttl, LEASE);
                hold.answer(send.node, send.id, Answer::TooLong(Millis(*limit)), due);
                let less = sent(|| hold.poll());
                assert_eq!(lengths(&less), [(send.node, *limit)]);
                hold.answer(send.node, less[0].id, Answer::Extended, due);
            }
            assert_eq!((sent(|| hold.poll()), hold.extended()), (vec![], None));
            let next = hold.wake().unwrap();
            assert!(until(&hold) > next.0 && next.0 > due.0 + 900_000, "{due:?}, {next:?}");
            due = next;
        }
        hold.tick(due);
        extended(&mut hold, &[0, 1, 2, 3, 4], due);
        assert!(until(&hold) > due.0 + LEASE.0 * 900);
    }
}

#[test]
fn a_node_that_does_not_grant_makes_up_no_majority_for_a_lease_that_is_too_long_for_others() {
    let quarantine = Answer::Refused(Obstacle::Quarantine(Millis(TTL)));
    for (no_vote, waits) in [
        (Answer::Silent, false),
        (Answer::Unreachable, false),
        (quarantine, false),
        (Answer::Denied, true),
    ] {
        for first in 0..3 {
            let mut hold = held(3);
            hold.extend(HOUR, Instant(SECOND));
            let asked = sent(|| hold.poll());
            // In each order.
            for node in [first, (first + 1) % 3, (first + 2) % 3] {
                let answer = [TOO_LONG, no_vote, Answer::Extended][node];
                hold.answer(node, asked[node].id, answer, Instant(SECOND));
            }
            assert_eq!((hold.ttl(), hold.extended()), (LEASE, Some(Err(Millis(40_000)))));
            let again = sent(|| hold.poll());
            let waiting = again.iter().filter(|send| send.ask.blocks()).count();
            assert_eq!(waiting, usize::from(waits));
            let again: Vec<_> = again.iter().filter(|send| !send.ask.blocks()).collect();
            assert!(again.iter().all(|send| send.ttl.0 <= 40_000), "{again:?}");
            let now = Instant(20 * SECOND);
            for send in again.iter().filter(|send| send.node != 1) {
                hold.sent(send.node, send.id, now);
                hold.answer(send.node, send.id, Answer::Extended, now);
            }
            assert!(until(&hold) > now.0 + LEASE.0 * 900, "two nodes hold it as before");
            assert_eq!(hold.ttl(), LEASE);
        }
    }
}

#[test]
fn a_node_that_refuses_a_longer_lease_while_all_others_are_silent_keeps_the_one_before() {
    for nodes in [3, 5] {
        let mut hold = held(nodes);
        hold.extend(HOUR, Instant(SECOND));
        let asked = sent(|| hold.poll());
        hold.answer(0, asked[0].id, TOO_LONG, Instant(SECOND));
        let less = sent(|| hold.poll());
        assert_eq!(lengths(&less), [(0, LEASE.0)]);
        hold.answer(0, less[0].id, Answer::Extended, Instant(SECOND));
        for send in &asked[1..] {
            hold.answer(send.node, send.id, Answer::Silent, Instant(2 * SECOND));
        }
        assert_eq!((hold.ttl(), hold.extended()), (LEASE, Some(Err(Millis(40_000)))));
    }
}

#[test]
fn a_winner_whose_lease_became_too_long_while_it_waited_asks_for_the_longest_at_once() {
    let (mut acquisition, waiting) = queueing(1);
    acquisition.answer(0, waiting.id, Answer::Granted(Fence(7)), at(0));
    let mut hold = acquisition.into_hold(at(0));
    hold.tick(hold.wake().unwrap());
    let longer = sent(|| hold.poll());
    assert_eq!(longer.iter().map(|send| send.ttl).collect::<Vec<_>>(), [LEASE]);
    let now = Instant(SECOND);
    hold.answer(0, longer[0].id, Answer::TooLong(Millis(20_000)), now);
    extended(&mut hold, &[0], now);
    assert!(until(&hold) > now.0 + 20_000 * 900);
}

#[test]
fn a_winner_keeps_the_lease_that_it_won_while_no_state_file_can_be_written() {
    let (mut acquisition, waiting) = queueing(1);
    acquisition.answer(0, waiting.id, Answer::Granted(Fence(7)), at(0));
    let mut hold = acquisition.into_hold(at(0));
    hold.tick(hold.wake().unwrap());
    let longer = sent(|| hold.poll());
    let now = Instant(SECOND);
    hold.answer(0, longer[0].id, NOT_DURABLE, now);
    extended(&mut hold, &[0], now);
    assert!(until(&hold) > now.0 + waiting.ttl.0 * 900);
    assert!(hold.wake().unwrap().0 > 2 * SECOND, "not again and again");
}

#[test]
fn a_lease_that_no_majority_accepts_is_an_error_that_says_which_one_all_accept() {
    for (answers, failure) in [
        (&[10_000, 20_000][..], Failure::TooLong(Millis(10_000))),
        (&[0, 20_000], Failure::TooLong(Millis(20_000))),
        (&[0, 0], Failure::Refused),
    ] {
        let mut acquisition = Acquisition::new(plan(3), at(0));
        let asked = sent(|| acquisition.poll());
        for (send, limit) in asked.iter().zip(answers) {
            let answer = match limit {
                0 => Answer::Refused(Obstacle::Never),
                limit => Answer::TooLong(Millis(*limit)),
            };
            acquisition.answer(send.node, send.id, answer, at(0));
        }
        acquisition.answer(2, asked[2].id, Answer::Denied, at(0));
        assert_eq!(acquisition.verdict(), Verdict::Lost(failure));
    }
}

#[test]
fn a_node_that_grants_no_lease_that_long_has_no_vote() {
    let mut acquisition = Acquisition::new(plan(3), at(0));
    let asked = sent(|| acquisition.poll());
    acquisition.answer(0, asked[0].id, TOO_LONG, at(0));
    for send in &asked[1..] {
        let Ask::Acquire { fence: Some(fence), .. } = send.ask else { panic!("{send:?}") };
        assert_eq!(send.ttl, LEASE);
        acquisition.answer(send.node, send.id, Answer::Granted(fence), at(0));
    }
    assert!(matches!(acquisition.verdict(), Verdict::Won(_)));
}

#[test]
fn a_longer_lease_that_no_node_grants_is_asked_for_less_and_less_often() {
    let mut hold = held(1);
    hold.extend(HOUR, Instant(SECOND));
    let mut asked = 0;
    while let (State::Held(_), Some(now)) = (hold.state(), hold.wake()) {
        for send in sent(|| hold.poll()) {
            hold.answer(0, send.id, Answer::Unreachable, now);
            asked += 1;
        }
        hold.tick(now);
    }
    assert!((10..50).contains(&asked), "{asked}");
}

#[test]
fn a_longer_lease_that_was_refused_is_asked_for_again_when_it_is_wanted_again() {
    let mut hold = held(1);
    for now in [Instant(SECOND), Instant(2 * SECOND)] {
        hold.extend(HOUR, now);
        let asked = sent(|| hold.poll());
        assert_eq!(asked.iter().map(|send| send.ttl).collect::<Vec<_>>(), [HOUR]);
        hold.answer(0, asked[0].id, TOO_LONG, now);
        assert_eq!(hold.ttl(), LEASE);
        extended(&mut hold, &[0], now);
        assert_eq!(hold.extended(), Some(Err(Millis(40_000))));
    }
    // The node may accept it by now, after a changed setting.
    let now = Instant(3 * SECOND);
    hold.extend(HOUR, now);
    extended(&mut hold, &[0], now);
    assert_eq!((hold.ttl(), hold.extended()), (HOUR, Some(Ok(()))));
}

fn queueing(nodes: usize) -> (Acquisition, Send) {
    let plan = Plan { start_at_gate: true, ..plan(nodes) };
    let mut acquisition = Acquisition::new(plan, at(0));
    let asked = sent(|| acquisition.poll());
    assert!(matches!(asked[..], [Send { node: 0, ask: Ask::Acquire { wait: Some(_), .. }, .. }]));
    (acquisition, asked[0])
}

#[test]
fn a_gate_that_can_never_grant_does_not_speak_for_the_others() {
    for answer in [Answer::Refused(Obstacle::Never), Answer::Unreachable] {
        let (mut acquisition, waiting) = queueing(3);
        acquisition.answer(0, waiting.id, answer, at(SECOND));
        // The connection alone may have failed.
        for again in sent(|| acquisition.poll()).iter().filter(|send| send.ask.keeps()) {
            acquisition.answer(0, again.id, answer, at(SECOND));
        }
        assert_eq!(acquisition.verdict(), Verdict::Pending);
        let rest = acquisition.wake().unwrap();
        assert!(rest.0 > SECOND, "not at once");
        acquisition.tick(at(rest.0));
        for send in
            sent(|| acquisition.poll()).into_iter().filter(|s| !matches!(s.ask, Ask::Release))
        {
            let Ask::Acquire { fence: Some(fence), .. } = send.ask else { panic!("{send:?}") };
            let granted = Answer::Granted(fence);
            let answer = if send.node == 0 { answer } else { granted };
            acquisition.answer(send.node, send.id, answer, at(rest.0));
        }
        assert!(matches!(acquisition.verdict(), Verdict::Won(_)));
    }
}

#[test]
fn a_node_that_is_busy_is_asked_for_the_longer_lease_again() {
    let mut hold = held(3);
    hold.extend(HOUR, Instant(SECOND));
    let asked = sent(|| hold.poll());
    hold.answer(0, asked[0].id, Answer::Refused(Obstacle::Busy), Instant(SECOND));
    let due = hold.wake().unwrap();
    hold.tick(due);
    let again: Vec<_> = sent(|| hold.poll()).iter().map(|send| (send.node, send.ttl)).collect();
    assert_eq!(again, [(0, HOUR)]);
}
