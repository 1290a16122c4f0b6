//! A lock that another process has handed over: a hint, until a majority has extended it.

use super::*;
use crate::quorum::Sound;

/// Takes over a lock with the fence 100, by these answers to an EXTEND that was sent at 0 ms, now.
fn taken_over(now: u64, answers: &[Answer]) -> Trial {
    let (fence, times) = (Fence(100), (Instant(0), Instant(now * 1000)));
    let hold = Hold::taken_over(Sound, (fence, Millis(TTL)), times, answers);
    Trial {
        machine: Machine::Holding(Box::new(hold)),
        now: now * 1000,
        newest: BTreeMap::new(),
        waiting: BTreeMap::new(),
        asked: BTreeMap::new(),
        requests: (0..answers.len()).map(|node| ((0, node), Requests::taken_over())).collect(),
        fences: BTreeMap::new(),
        lease: Millis(TTL),
    }
}

const YES: Answer = Answer::Extended;
const GONE: Answer = Answer::Gone;

#[test]
fn a_lock_is_taken_over_when_a_majority_has_extended_it() {
    let mut trial = taken_over(30, &[YES, Answer::Silent, YES]);
    let until = trial.until();
    assert!((980..TTL).contains(&until), "it counts from the request: {until}");
    assert_eq!(trial.hold().fence(), Some(Fence(100)));
    trial.sends("");
    trial.hold().release();
    trial.sends("0F 1F 2F");
}

#[test]
fn a_lock_that_no_majority_has_extended_in_time_is_not_taken_over() {
    taken_over(30, &[YES, Answer::Silent, GONE]).is_lost(LossReason::NotRenewed);
    taken_over(30, &[YES, GONE, GONE]).is_lost(LossReason::NotRenewed);
    taken_over(30, &[GONE]).is_lost(LossReason::NotRenewed);
    let mut late = taken_over(TTL, &[YES, YES, YES]);
    let now = Instant(late.now);
    late.hold().tick(now);
    late.is_lost(LossReason::NotRenewed);
}

#[test]
fn a_lock_that_was_taken_over_is_kept_as_any_other() {
    let mut trial = taken_over(30, &[YES, GONE, YES]);
    trial.wakes();
    trial.sends("0E100 1A100 2E100");
    trial.hears(0, YES);
    trial.grants(1, 101);
    trial.hears(2, GONE);
    trial.is_lost(LossReason::Ended);
}
