//! Quarantine: a node that may have forgotten leases grants nothing until they have all ended.
//!
//! All keys wait for the leases of usual length. A key that may have had a longer lease waits longer,
//! alone.

use alloc::vec::Vec;
use core::fmt;

use super::lease_bound::{KeyHash, LeaseBound};
use super::record::{Ended, Record};
use crate::words::{Deadline, Instant, Millis};

/// A time in which the node grants nothing, longer for some keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quarantine {
    /// End for all keys but those in `long`.
    pub until: Deadline,
    /// The first cause.
    pub cause: Cause,
    /// True if `until` has passed, and the waiters for those keys have been woken.
    is_over: bool,
    /// The keys with a later end, by hash, and each one's end.
    long: Vec<(KeyHash, Deadline)>,
}

impl Quarantine {
    /// Begins one now, for leases that end within `bound`. What is left of an `old` one goes on.
    /// `None` if no lease can be left.
    #[must_use]
    pub fn begin(
        old: Option<Quarantine>,
        cause: Cause,
        bound: &LeaseBound,
        now: Instant,
    ) -> Option<Quarantine> {
        let left = old.as_ref().map_or(LeaseBound::default(), |old| old.left(now));
        let cause = old.filter(|_| left.usual() >= bound.usual()).map_or(cause, |old| old.cause);
        let bound = left.join(bound);
        let after = |length| Deadline::after(now, length);
        let long = bound.long().map(|(key, length)| (key, after(length))).collect();
        let is_over = bound.usual().0 == 0;
        let all = Quarantine { until: after(bound.usual()), cause, is_over, long };
        (bound.longest().0 > 0).then_some(all)
    }

    /// Time left for each key.
    #[must_use]
    pub fn left(&self, now: Instant) -> LeaseBound {
        let mut left = LeaseBound::usual_of(self.until.left(now));
        self.long.iter().for_each(|(key, end)| left.raise(*key, end.left(now)));
        left
    }

    /// End for the key.
    #[must_use]
    pub fn of(&self, name: &[u8]) -> Deadline {
        if self.long.is_empty() {
            return self.until;
        }
        let hash = KeyHash::of(name);
        let at = self.long.binary_search_by_key(&hash, |(hash, _)| *hash);
        let long = at.ok().and_then(|at| self.long.get(at));
        long.map_or(self.until, |(_, end)| *end)
    }

    /// End for the last key.
    #[must_use]
    pub fn last(&self) -> Deadline {
        self.long.iter().map(|(_, end)| *end).fold(self.until, Deadline::max)
    }

    /// Next end for some keys.
    #[must_use]
    pub fn next(&self) -> Deadline {
        let ends = self.long.iter().map(|(_, end)| *end);
        ends.chain((!self.is_over).then_some(self.until)).min().unwrap_or(self.until)
    }

    /// True if it still holds for all keys.
    #[must_use]
    pub fn is_for_all(&self) -> bool {
        !self.is_over
    }

    /// Updates the state to the time. True if it has just ended for some keys.
    pub fn pass(&mut self, now: Instant) -> bool {
        let before = (self.is_over, self.long.len());
        self.is_over |= self.until.is_over(now);
        self.long.retain(|(_, end)| !end.is_over(now));
        before != (self.is_over, self.long.len())
    }
}

/// The event by which a node may have forgotten leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A crash.
    Crash,
    /// A shutdown after which other leases came back than were held.
    Lost,
    /// A replica knows what it was sent, which may not be all.
    Promoted,
    /// A replica that its primary had not told yet how long leases can run.
    Untold,
    /// DEBUG RELOAD, for example.
    Replaced,
    /// Leases whose ends nobody has written down.
    Unrecorded,
    /// No state file: the node is new, or has lost its disk.
    Unknown,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Cause::Crash => "the last life ended without a clean shutdown",
            Cause::Lost => "the leases of the last life did not come back as they were",
            Cause::Promoted => "this node was promoted from replica to primary",
            Cause::Untold => {
                "this node was promoted from replica to primary before that one told it how long leases \
                 can run (dlock.promotion-quarantine)"
            }
            Cause::Replaced => "a data set was loaded over the live one",
            Cause::Unrecorded => "leases came with the data set and there was no state file",
            Cause::Unknown => {
                "this node started without a state file, so it may have lost its disk, and leases with it; if \
                 it has never granted a lock, set dlock.newborn-quarantine to 0 before its first start"
            }
        })
    }
}

/// The operator's policy: `dlock.quarantine`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// As long as a forgotten lease can run.
    #[default]
    Auto,
    /// Never.
    Off,
    /// At least this long, unless it is certain that nothing was forgotten.
    Least(Millis),
}

impl Policy {
    /// The length of the quarantine if the leases that may have been forgotten end within `bound`.
    /// `None`: no quarantine.
    #[must_use]
    pub fn length(self, bound: &LeaseBound) -> Option<LeaseBound> {
        match self {
            Policy::Auto => Some(bound.clone()),
            Policy::Off => None,
            Policy::Least(least) => Some(bound.join(&LeaseBound::usual_of(least))),
        }
    }
}

/// A node's knowledge when it starts, with its data set loaded.
#[derive(Clone, Copy, Debug)]
pub struct Start<'a> {
    /// The record in the state file; `None` at the first start.
    pub before: Option<&'a Record>,
    /// True if the server now reads a complete log.
    pub log_is_complete: bool,
    /// The leases that came with the data set.
    pub back: Ended,
    /// The lease bound of those leases.
    pub held: &'a LeaseBound,
}

impl Start<'_> {
    /// The cause by which leases may have been forgotten, and the bound of their time left. `None`: none
    /// were. A node without a state file may have lost its disk, and leases of the length `newborn`.
    #[must_use]
    pub fn forgotten(&self, newborn: Millis) -> Option<(Cause, LeaseBound)> {
        let Some(before) = self.before else {
            let cause = if self.back.leases > 0 { Cause::Unrecorded } else { Cause::Unknown };
            // Other leases may have been lost, at any key.
            return Some((cause, LeaseBound::usual_of(self.held.longest().max(newborn))));
        };
        match before.ended {
            Some(ended) if ended == self.back || ended.leases == 0 => None,
            Some(_) => Some((Cause::Lost, before.bound.clone())),
            None if before.log_is_complete && self.log_is_complete => None,
            None => Some((Cause::Crash, before.bound.clone())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::Fence;

    const NONE: Ended = Ended { leases: 0, digest: 0 };
    const THREE: Ended = Ended { leases: 3, digest: 77 };

    fn usual(ms: u64) -> LeaseBound {
        LeaseBound::usual_of(Millis(ms))
    }

    /// The same, and longer ones at one key.
    fn with(ms: u64, name: &[u8], long: u64) -> LeaseBound {
        let mut bound = usual(ms);
        bound.raise(KeyHash::of(name), Millis(long));
        bound
    }

    fn before(ended: Option<Ended>, log_is_complete: bool) -> Record {
        let (fence, bound) = (Fence(9), with(500, b"long", 900));
        Record { node_id: 1, boot: 1, fence, unix: 0, bound, ended, log_is_complete }
    }

    fn forgotten(before: Option<&Record>, log: bool, back: Ended) -> Option<(Cause, LeaseBound)> {
        let held = &with(20, b"held", 40);
        Start { before, log_is_complete: log, back, held }.forgotten(Millis(30))
    }

    #[test]
    fn every_cause_is_said_in_words_of_its_own() {
        use Cause::{Crash, Lost, Promoted, Replaced, Unknown, Unrecorded, Untold};
        let causes = [Crash, Lost, Promoted, Untold, Replaced, Unrecorded, Unknown];
        let mut words: Vec<_> = causes.map(|cause| alloc::format!("{cause}")).into();
        words.sort_unstable();
        words.dedup();
        assert!(words.len() == causes.len() && words.iter().all(|words| words.len() > 10));
    }

    #[test]
    fn after_a_crash_everything_may_have_been_forgotten() {
        for back in [NONE, THREE] {
            let crash = Some((Cause::Crash, with(500, b"long", 900)));
            assert_eq!(forgotten(Some(&before(None, false)), true, back), crash);
            assert_eq!(forgotten(Some(&before(None, true)), false, back), crash);
        }
    }

    #[test]
    fn after_a_crash_nothing_is_forgotten_with_a_complete_log() {
        assert_eq!(forgotten(Some(&before(None, true)), true, THREE), None);
    }

    #[test]
    fn after_a_shutdown_nothing_is_forgotten_if_all_leases_came_back() {
        assert_eq!(forgotten(Some(&before(Some(THREE), false)), false, THREE), None);
        assert_eq!(forgotten(Some(&before(Some(NONE), false)), false, NONE), None);
        assert_eq!(forgotten(Some(&before(Some(NONE), false)), false, THREE), None);
    }

    #[test]
    fn after_a_shutdown_leases_that_did_not_come_back_are_forgotten() {
        let lost = Some((Cause::Lost, with(500, b"long", 900)));
        let others = Ended { digest: 78, ..THREE };
        assert_eq!(forgotten(Some(&before(Some(THREE), false)), false, NONE), lost);
        assert_eq!(forgotten(Some(&before(Some(THREE), true)), true, others), lost);
    }

    #[test]
    fn at_the_first_start_the_leases_of_the_data_set_count() {
        assert_eq!(forgotten(None, true, THREE), Some((Cause::Unrecorded, usual(40))));
        let held = &LeaseBound::default();
        let none = Start { before: None, log_is_complete: false, back: NONE, held };
        assert_eq!(none.forgotten(Millis(0)), Some((Cause::Unknown, usual(0))));
        assert_eq!(none.forgotten(Millis(30)), Some((Cause::Unknown, usual(30))));
        assert_eq!(Quarantine::begin(None, Cause::Unknown, &usual(0), Instant(0)), None);
    }

    #[test]
    fn the_operator_can_ask_for_more_or_for_none() {
        let some = with(5, b"long", 9);
        assert_eq!(Policy::Auto.length(&some), Some(some.clone()));
        assert_eq!(Policy::Least(Millis(7)).length(&some), Some(with(7, b"long", 9)));
        assert_eq!(Policy::Least(Millis(9)).length(&some), Some(usual(9)));
        assert_eq!(Policy::Least(Millis(4)).length(&usual(0)), Some(usual(4)));
        assert_eq!(Policy::Off.length(&some), None);
    }

    #[test]
    fn for_each_key_the_later_end_counts() {
        let at = |name: &[u8], all: &Option<Quarantine>| all.as_ref().unwrap().of(name).0;
        let first = Quarantine::begin(None, Cause::Crash, &with(10, b"a", 30), Instant(0));
        let same =
            Quarantine::begin(first.clone(), Cause::Promoted, &with(5, b"b", 20), Instant(0));
        assert_eq!(same.as_ref().unwrap().cause, Cause::Crash);
        assert_eq!((at(b"a", &same), at(b"b", &same), at(b"c", &same)), (30, 20, 10));
        let later = Quarantine::begin(same, Cause::Promoted, &usual(25), Instant(0));
        assert_eq!(later.as_ref().unwrap().cause, Cause::Promoted);
        assert_eq!((at(b"a", &later), at(b"b", &later), at(b"c", &later)), (30, 25, 25));
    }

    #[test]
    fn it_ends_first_for_most_keys_and_then_for_each_of_the_others() {
        let mut bound = with(10, b"a", 30);
        bound.raise(KeyHash::of(b"b"), Millis(20));
        let mut all = Quarantine::begin(None, Cause::Crash, &bound, Instant(0)).unwrap();
        let mut seen = Vec::new();
        for ms in [9, 10, 11, 20, 29, 30] {
            seen.push((all.next().0, all.pass(Instant(ms * 1000)), all.is_for_all()));
        }
        let (yes, no) = (true, false);
        let ends = [10, 10, 20, 20, 30, 30];
        let passed = [(no, yes), (yes, no), (no, no), (yes, no), (no, no), (yes, no)];
        let expected = ends.iter().zip(passed).map(|(end, (passed, all))| (*end, passed, all));
        assert!(seen.into_iter().eq(expected));
        assert_eq!(all.left(Instant(30_000)), usual(0));
    }
}
