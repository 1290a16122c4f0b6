//! The counters, and the numbers that the state file covers.

use super::reserve::{RESERVE, STEP};
use super::*;

const HERE: &[u8] = b"here";
const THERE: &[u8] = b"there";
const SECOND: u64 = 1_000_000;
const MINUTE: u64 = 60 * SECOND;
const DAY: u64 = 24 * 60 * MINUTE;
const EVE: Owner = Owner(7);

/// A counter at this time.
fn counter(now: u64, unix: u64) -> Counter {
    let mut counter = Counter::default();
    counter.look(at(now, unix));
    counter
}

fn take(counter: &mut Counter, unix: u64, proposal: Option<Fence>) -> Option<Fence> {
    take_at(HERE, counter, unix, proposal)
}

fn take_at(
    name: &[u8],
    counter: &mut Counter,
    unix: u64,
    proposal: Option<Fence>,
) -> Option<Fence> {
    counter.look(at(0, unix));
    let next = counter.next(name, proposal)?;
    counter.hand_out(name, next, EVE);
    Some(next)
}

fn at(now: u64, unix: u64) -> Time {
    Time { now: Instant(now), unix }
}

/// Reserves what is needed for a fence.
fn reserve(counter: &mut Counter, time: Time, fence: u64) -> u64 {
    counter.look(time);
    let next = counter.to_reserve(Fence(fence));
    counter.asked(next);
    counter.promised(next);
    counter.hand_out(HERE, Fence(fence), EVE);
    next.0
}

#[test]
fn it_grows_when_the_clock_stands_still_or_goes_back() {
    let mut counter = Counter::default();
    assert_eq!(take(&mut counter, 100, None), Some(Fence(100)));
    assert_eq!(take(&mut counter, 100, None), Some(Fence(101)));
    assert_eq!(take(&mut counter, 5, None), Some(Fence(102)));
}

#[test]
fn a_proposal_is_a_floor_and_not_a_wish() {
    let mut counter = Counter::default();
    assert_eq!(take(&mut counter, 100, Some(Fence(500))), Some(Fence(500)));
    assert_eq!(take(&mut counter, 100, Some(Fence(200))), Some(Fence(501)));
}

#[test]
fn beside_a_proposal_the_clock_is_no_floor() {
    let mut counter = Counter::default();
    assert_eq!(take(&mut counter, 100, Some(Fence(7))), Some(Fence(7)));
    assert_eq!(take(&mut counter, 100, Some(Fence(7))), Some(Fence(8)));
    assert_eq!(take(&mut counter, 100, None), Some(Fence(100)));
}

#[test]
fn a_grant_at_one_key_moves_no_other_keys_fence() {
    let mut counter = Counter::default();
    assert_eq!(take(&mut counter, 100, Some(Fence(500))), Some(Fence(500)));
    assert_eq!(take_at(THERE, &mut counter, 100, Some(Fence(300))), Some(Fence(300)));
    assert_eq!(take_at(THERE, &mut counter, 100, Some(Fence(1))), Some(Fence(301)));
    assert_eq!(take(&mut counter, 100, Some(Fence(300))), Some(Fence(501)));
    assert_eq!(counter.last(), Fence(501));
}

/// A name with the same slot as this one.
fn neighbour(name: &[u8]) -> [u8; 4] {
    let mut names = (0_u32..).map(u32::to_be_bytes);
    names.find(|other| Slot::of(other) == Slot::of(name)).unwrap()
}

#[test]
fn a_proposal_moves_keys_in_its_slot_by_seconds_and_its_own_key_all_the_way() {
    let (unix, other) = (DAY, neighbour(HERE));
    for ahead in [0, MAX_SHARED_AHEAD, MAX_SHARED_AHEAD + 1, MAX_FENCE_AHEAD] {
        let mut counter = counter(0, unix);
        let far = Fence(unix + ahead);
        assert_eq!(take(&mut counter, unix, Some(far)), Some(far));
        assert_eq!(take(&mut counter, unix, Some(Fence(1))), Some(Fence(far.0 + 1)));
        let next = take_at(&other, &mut counter, unix, Some(Fence(1))).unwrap();
        assert!(next.0 <= unix + MAX_SHARED_AHEAD + 2, "{next:?} after {far:?}");
        // Many attempts change nothing.
        let most = unix + ahead;
        for _ in 0..100 {
            take(&mut counter, unix, Some(Fence(most)));
        }
        let next = take_at(&other, &mut counter, unix, Some(Fence(1))).unwrap();
        assert!(next.0 <= unix + MAX_SHARED_AHEAD + 200, "{next:?} after {far:?}");
    }
}

#[test]
fn what_is_remembered_for_a_key_alone_is_its_slots_once_the_clock_is_there() {
    let (unix, other) = (DAY, neighbour(HERE));
    let mut counter = counter(0, unix);
    let far = Fence(unix + MINUTE);
    take(&mut counter, unix, Some(far));
    assert_eq!((counter.keys_ahead(), counter.used(&other)), (1, Fence(0)));
    counter.look(at(0, far.0 - MAX_SHARED_AHEAD - 1));
    assert_eq!(counter.keys_ahead(), 1);
    counter.look(at(0, far.0 - MAX_SHARED_AHEAD));
    assert_eq!((counter.keys_ahead(), counter.used(HERE), counter.used(&other)), (0, far, far));
}

#[test]
fn what_others_decided_is_remembered_and_what_a_command_brought_while_there_is_room() {
    let unix = DAY;
    let far = Fence(unix + MINUTE);
    for decided in [true, false] {
        let mut counter = counter(0, unix);
        let names: vec::Vec<[u8; 8]> =
            (0..crate::limits::MAX_KEYS_AHEAD).map(u64::to_be_bytes).collect();
        names.iter().for_each(|name| counter.learn(name, far, decided));
        let forgotten = names.iter().filter(|name| counter.used(*name) < far).count();
        assert_eq!(forgotten > 0, !decided, "{forgotten}");
        assert!(counter.used(b"another") <= Fence(counter.shared()));
    }
}

#[test]
fn what_is_known_of_no_key_is_a_floor_for_all() {
    let mut counter = Counter::default();
    counter.learn(HERE, Fence(900), true);
    counter.raise_all(Fence(500));
    assert_eq!(take_at(THERE, &mut counter, 100, Some(Fence(300))), Some(Fence(501)));
    assert_eq!(take(&mut counter, 100, Some(Fence(300))), Some(Fence(901)));
    assert_eq!(counter.last(), Fence(901));
}

#[test]
fn a_start_begins_above_the_clock_for_all_proposals_near_it() {
    let day = DAY;
    let mut counter = counter(0, day);
    counter.learn(HERE, Fence(day + MINUTE), true);
    counter.begin();
    assert_eq!((counter.last(), counter.first()), (Fence(day + MINUTE), Some(Fence(day))));
    let near = Some(Fence(day - MAX_FENCE_AHEAD));
    assert_eq!(counter.next(THERE, near), Some(Fence(day + 1)));
    // The clock is wrong, or the client has no clock.
    let far = Fence(day - MAX_FENCE_AHEAD - 1);
    assert_eq!(counter.next(THERE, Some(far)), Some(far));
    assert_eq!(counter.next(HERE, near), Some(Fence(day + MINUTE + 1)));
    assert_eq!(counter.next(HERE, Some(far)), Some(Fence(day + MINUTE + 1)));
    // A fence near the clock may have been handed out together with fences that never arrived.
    counter.learn(HERE, Fence(day + 500), true);
    counter.learn(&neighbour(HERE), Fence(day + 500), true);
    counter.begin();
    assert_eq!(counter.next(THERE, Some(far)), Some(Fence(day + 501)));
}

#[test]
fn how_far_a_proposal_may_be_ahead_hangs_on_the_clock_and_the_floor_alone() {
    let mut counter = counter(0, 100);
    let ten_minutes = 10 * MINUTE;
    assert_eq!(counter.farthest(), Fence(ten_minutes));
    counter.hand_out(HERE, Fence(ten_minutes), EVE);
    counter.look(at(0, FARTHEST_STAYS - 1));
    assert_eq!(counter.farthest(), Fence(ten_minutes), "it stays for a while");
    counter.look(at(0, FARTHEST_STAYS));
    assert_eq!(counter.farthest(), Fence(FARTHEST_STAYS + ten_minutes));
    counter.raise_all(Fence(FARTHEST_STAYS + MAX_LEAD));
    assert_eq!(counter.farthest(), Fence(FARTHEST_STAYS + ten_minutes));
    counter.raise_all(Fence(FARTHEST_STAYS + MAX_LEAD + 1));
    assert_eq!(counter.farthest(), Fence(FARTHEST_STAYS + MAX_LEAD + 1 + MINUTE));
    counter.look(at(0, MAX_FENCE));
    assert_eq!(counter.farthest(), Fence(MAX_FENCE));
}

#[test]
fn the_last_number_is_the_last() {
    let mut counter = counter(0, 1);
    counter.learn(HERE, Fence(u64::MAX), true);
    assert_eq!(counter.last(), Fence(MAX_FENCE));
    assert_eq!((counter.next(HERE, None), counter.first()), (None, Some(Fence(1))));
    counter.raise_all(Fence(u64::MAX));
    assert_eq!((counter.next(THERE, None), counter.first()), (None, None));
    assert_eq!(counter.to_reserve(Fence(1)), Fence(MAX_FENCE));
    counter.promised(Fence(MAX_FENCE));
    assert!(!counter.runs_low());
}

#[test]
fn nothing_is_handed_out_above_the_promise() {
    let mut counter = Counter::default();
    assert!(!counter.allows(Fence(1)));
    counter.promised(Fence(100));
    assert!(counter.allows(Fence(100)));
    assert!(!counter.allows(Fence(101)));
    counter.promised(Fence(50));
    assert!(counter.allows(Fence(100)), "a promise stands");
}

#[test]
fn more_is_reserved_when_half_of_it_is_used_up() {
    let mut counter = counter(0, DAY);
    assert!(!counter.runs_low() && counter.to_reserve(Fence(0)) == Fence(0), "nobody asks");
    assert_eq!(reserve(&mut counter, at(0, DAY), DAY), DAY + RESERVE);
    let half = RESERVE / 2;
    counter.look(at(half, DAY + half));
    assert!(!counter.runs_low());
    counter.look(at(half + 1, DAY + half + 1));
    assert!(counter.runs_low());
    counter.look(at(0, DAY));
    counter.hand_out(HERE, Fence(DAY + 1 + RESERVE - STEP / 2), EVE);
    assert!(counter.runs_low());
}

#[test]
fn the_wall_clock_alone_reserves_little_and_less_than_others_accept() {
    let mut counter = counter(0, DAY);
    reserve(&mut counter, at(0, DAY), DAY);
    // The wall clock jumps a day ahead, and comes back: no fence was handed out by it.
    counter.look(at(SECOND, 2 * DAY));
    let next = counter.to_reserve(Fence(0));
    assert!(next.0 <= DAY + 2 * RESERVE + SECOND, "{next:?}");
    counter.asked(next);
    counter.promised(next);
    assert!(!counter.runs_low());
    let proposal = Fence(DAY + SECOND);
    assert_eq!(counter.next(THERE, Some(proposal)), Some(proposal));
    counter.hand_out(THERE, proposal, EVE);
    counter.look(at(2 * SECOND, DAY + 2 * SECOND));
    assert_eq!(counter.next(THERE, None), Some(Fence(DAY + 2 * SECOND)));
    assert!(counter.farthest().0 <= DAY + 2 * SECOND + MAX_FENCE_AHEAD);
}

#[test]
fn what_is_proposed_reserves_no_more_than_a_fixed_lead() {
    let mut counter = counter(0, DAY);
    for second in 0..60 {
        counter.look(at(second * SECOND, DAY + second * SECOND));
        let far = counter.farthest();
        let time = counter.time;
        assert_eq!(reserve(&mut counter, time, far.0), far.0 + STEP);
        assert!(!counter.runs_low());
        counter.hand_out(HERE, far, EVE);
    }
    assert!(counter.reserved().0 <= counter.time.unix + MAX_LEAD);
}

#[test]
fn a_key_with_the_largest_proposal_needs_no_write_for_each_grant() {
    let mut counter = counter(0, DAY);
    let (mut writes, mut fence) = (0, counter.farthest());
    for micro in 0..1_000_000 {
        counter.look(at(micro, DAY + micro));
        if !counter.allows(fence) {
            let time = counter.time;
            reserve(&mut counter, time, fence.0);
            writes += 1;
        }
        counter.hand_out(HERE, fence, EVE);
        fence = counter.next(HERE, None).unwrap();
    }
    assert_eq!(writes, 1);
}

#[test]
fn where_fences_are_ahead_of_the_clock_little_is_added() {
    let mut counter = Counter::default();
    counter.raise_all(Fence(2 * RESERVE));
    assert_eq!(reserve(&mut counter, at(0, 0), 0), 2 * RESERVE + STEP);
    assert_eq!(reserve(&mut counter, at(1, 1), 0), 2 * RESERVE + STEP, "there is enough");
    let far = 5 * RESERVE;
    assert_eq!(reserve(&mut counter, at(2, 2), far), far + 5 * SECOND);
}

#[test]
fn a_later_promise_is_never_smaller_than_one_that_may_be_on_its_way() {
    let mut counter = counter(0, 1_000_000);
    let first = counter.to_reserve(Fence(1_000_000));
    counter.asked(first);
    counter.look(at(1, 0));
    assert_eq!(counter.to_reserve(Fence(0)), first);
}
