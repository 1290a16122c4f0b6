//! Quarantine: a node that may have forgotten leases grants nothing until they have all ended.

use core::fmt;

use super::record::{Ended, Record};
use crate::words::{Deadline, Instant, Millis};

/// A time in which the node grants nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quarantine {
    /// The end.
    pub until: Deadline,
    /// The first cause.
    pub cause: Cause,
}

impl Quarantine {
    /// Begins one now, for leases that end within `bound`. The rest of an `old` one still counts. `None` if
    /// every such lease has ended.
    #[must_use]
    pub fn begin(
        old: Option<Quarantine>,
        cause: Cause,
        bound: Millis,
        now: Instant,
    ) -> Option<Quarantine> {
        let left = old.map_or(Millis(0), |old| old.left(now));
        let cause = old.filter(|_| left >= bound).map_or(cause, |old| old.cause);
        let bound = left.max(bound);
        (bound.0 > 0).then(|| Quarantine { until: Deadline::after(now, bound), cause })
    }

    /// Time left.
    #[must_use]
    pub fn left(&self, now: Instant) -> Millis {
        self.until.left(now)
    }
}

/// The event that may have made a node forget leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A crash.
    Crash,
    /// A clean shutdown, and other leases in the data set than were held then.
    Lost,
    /// A promotion: some leases may not have been replicated.
    Promoted,
    /// A promotion before the primary had sent its lease bound.
    Untold,
    /// Another data set, by DEBUG RELOAD for example.
    Replaced,
    /// Leases without a record of their ends.
    Unrecorded,
    /// No state file: the node is new, or has lost its disk.
    Unknown,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Cause::Crash => "the server was not shut down cleanly, so earlier leases may still be held",
            Cause::Lost => "the leases that came back are not those that were held at the shutdown",
            Cause::Promoted => "this server was promoted, and may not have received all leases of its primary",
            Cause::Untold => {
                "this server was promoted before its primary told it how long leases run, so they may run \
                 as long as dlock.max-ttl allows"
            }
            Cause::Replaced => "a data set was loaded over the live one",
            Cause::Unrecorded => "leases came with the data set, and there was no state file",
            Cause::Unknown => {
                "this node started without a state file: it is new, or has lost its disk and leases"
            }
        })
    }
}

/// The operator's policy: `dlock.quarantine`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// Quarantines last as long as a forgotten lease can run.
    #[default]
    Auto,
    /// Never.
    Off,
    /// Quarantines last at least this long, unless certainly no lease was forgotten.
    Least(Millis),
}

impl Policy {
    /// The length of the quarantine if the leases that may have been forgotten end within `bound`.
    /// `None`: no quarantine.
    #[must_use]
    pub fn length(self, bound: Millis) -> Option<Millis> {
        match self {
            Policy::Auto => Some(bound),
            Policy::Off => None,
            Policy::Least(least) => Some(bound.max(least)),
        }
    }
}

/// The state of a node when it starts, with its data set loaded.
#[derive(Clone, Copy, Debug)]
pub struct Start<'a> {
    /// The record in the state file; `None` at the first start.
    pub before: Option<&'a Record>,
    /// The leases that came with the data set.
    pub back: Ended,
    /// The longest time left of those leases.
    pub held: Millis,
}

impl Start<'_> {
    /// The event that may have made the node forget leases, and the bound of their time left. `None`: no lease
    /// was forgotten. A node without a state file may have lost its disk, and leases of the length `newborn`.
    #[must_use]
    pub fn forgotten(&self, newborn: Millis) -> Option<(Cause, Millis)> {
        let (cause, bound) = match self.before.map(|before| (before.ended, before.bound)) {
            // Other leases may have been lost, too, unless the operator says that the node is new.
            None if self.back.leases > 0 => (Cause::Unrecorded, newborn),
            None => (Cause::Unknown, newborn),
            Some((Some(ended), _)) if ended == self.back => return None,
            Some((Some(_), bound)) => (Cause::Lost, bound),
            Some((None, bound)) => (Cause::Crash, bound),
        };
        // The leases that came back may be of an older data set: over long ago, or granted to other clients since.
        let bound = bound.max(self.held);
        let is_new = self.before.is_none() && bound.0 == 0;
        (!is_new).then_some((cause, bound))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::Fence;

    const NONE: Ended = Ended { leases: 0, digest: 0 };
    const THREE: Ended = Ended { leases: 3, digest: 77 };

    fn before(ended: Option<Ended>) -> Record {
        let (fence, bound) = (Fence(9), Millis(900));
        Record { node_id: 1, boot: 1, fence, unix: 0, bound, ended }
    }

    fn forgotten(before: Option<&Record>, back: Ended) -> Option<(Cause, Millis)> {
        Start { before, back, held: Millis(40) }.forgotten(Millis(30))
    }

    #[test]
    fn every_cause_is_said_in_words_of_its_own() {
        use Cause::{Crash, Lost, Promoted, Replaced, Unknown, Unrecorded, Untold};
        let causes = [Crash, Lost, Promoted, Untold, Replaced, Unrecorded, Unknown];
        let mut words: alloc::vec::Vec<_> = causes.map(|cause| alloc::format!("{cause}")).into();
        words.sort_unstable();
        words.dedup();
        assert!(words.len() == causes.len() && words.iter().all(|words| words.len() > 10));
    }

    #[test]
    fn after_a_crash_everything_may_have_been_forgotten() {
        for back in [NONE, THREE] {
            assert_eq!(forgotten(Some(&before(None)), back), Some((Cause::Crash, Millis(900))));
        }
    }

    /// The operator may ask for a longer quarantine after each crash.
    #[test]
    fn a_crash_without_leases_is_a_crash() {
        let none = Record { bound: Millis(0), ..before(None) };
        let start = Start { before: Some(&none), back: NONE, held: Millis(0) };
        assert_eq!(start.forgotten(Millis(30)), Some((Cause::Crash, Millis(0))));
    }

    #[test]
    fn after_a_shutdown_nothing_is_forgotten_if_all_leases_came_back() {
        assert_eq!(forgotten(Some(&before(Some(THREE))), THREE), None);
        assert_eq!(forgotten(Some(&before(Some(NONE))), NONE), None);
    }

    #[test]
    fn after_a_shutdown_leases_that_did_not_come_back_are_forgotten() {
        let lost = Some((Cause::Lost, Millis(900)));
        let others = Ended { digest: 78, ..THREE };
        assert_eq!(forgotten(Some(&before(Some(THREE))), NONE), lost);
        assert_eq!(forgotten(Some(&before(Some(THREE))), others), lost);
        // Those of an older data set, when none was held, and longer ones.
        let none = Record { bound: Millis(0), ..before(Some(NONE)) };
        assert_eq!(forgotten(Some(&none), THREE), Some((Cause::Lost, Millis(40))));
        let short = Record { bound: Millis(9), ..before(None) };
        assert_eq!(forgotten(Some(&short), THREE), Some((Cause::Crash, Millis(40))));
    }

    #[test]
    fn at_the_first_start_the_leases_of_the_data_set_count() {
        assert_eq!(forgotten(None, THREE), Some((Cause::Unrecorded, Millis(40))));
        let none = Start { before: None, back: NONE, held: Millis(0) };
        assert_eq!(none.forgotten(Millis(0)), None);
        assert_eq!(none.forgotten(Millis(30)), Some((Cause::Unknown, Millis(30))));
    }

    #[test]
    fn the_operator_can_ask_for_more_or_for_none() {
        assert_eq!(Policy::Auto.length(Millis(5)), Some(Millis(5)));
        assert_eq!(Policy::Least(Millis(7)).length(Millis(5)), Some(Millis(7)));
        assert_eq!(Policy::Least(Millis(4)).length(Millis(5)), Some(Millis(5)));
        assert_eq!(Policy::Off.length(Millis(5)), None);
    }

    #[test]
    fn the_later_end_counts() {
        let first = Quarantine::begin(None, Cause::Crash, Millis(10), Instant(0));
        let same = Quarantine::begin(first, Cause::Promoted, Millis(5), Instant(0));
        assert_eq!(same, first);
        let later = Quarantine::begin(same, Cause::Promoted, Millis(25), Instant(0));
        let until = Deadline(25);
        assert_eq!(later, Some(Quarantine { until, cause: Cause::Promoted }));
    }
}
