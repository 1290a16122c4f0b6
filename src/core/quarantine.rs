//! Quarantine: a node that may have forgotten leases grants nothing until they have all ended.

use core::fmt;

use crate::record::{Ended, Record};
use crate::words::{Deadline, Instant, Millis};

/// A time in which nothing is granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quarantine {
    /// When it is over.
    pub until: Deadline,
    /// Why.
    pub why: Why,
}

/// The event by which a node may have forgotten leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// A crash.
    Crash,
    /// A shutdown after which less came back than there was.
    Lost,
    /// A replica knows what it was sent, which may not be all.
    Promoted,
    /// DEBUG RELOAD, for example.
    Replaced,
    /// Leases whose ends nobody has written down.
    Unrecorded,
    /// No state file, where the operator expects leases nevertheless.
    Unknown,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Why::Crash => "the last life ended without a clean shutdown",
            Why::Lost => "the leases of the last life did not come back as they were",
            Why::Promoted => "this node was promoted from replica to primary",
            Why::Replaced => "a data set was loaded over the live one",
            Why::Unrecorded => "leases came with the data set and there was no state file",
            Why::Unknown => "there was no state file",
        })
    }
}

/// What the operator says of it: `dlock.quarantine`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// As long as is needed.
    #[default]
    Auto,
    /// Never.
    Off,
    /// At least this long, unless it is certain that nothing was forgotten.
    Least(Millis),
}

impl Policy {
    /// How long, when the leases that may have been forgotten end within `bound`. `None`: not at
    /// all.
    #[must_use]
    pub fn length(self, bound: Millis) -> Option<Millis> {
        let length = match self {
            Policy::Auto => bound,
            Policy::Off => return None,
            Policy::Least(least) => bound.max(least),
        };
        (length.0 > 0).then_some(length)
    }
}

/// What a node knows when it starts, with its data set loaded.
#[derive(Clone, Copy, Debug)]
pub struct Start<'a> {
    /// What the state file said; `None` at the first start.
    pub before: Option<&'a Record>,
    /// Whether the server now reads a log that misses nothing.
    pub log_is_complete: bool,
    /// The leases that came with the data set.
    pub back: Ended,
    /// The longest of them, at full length.
    pub longest: Millis,
}

impl Start<'_> {
    /// What may have been forgotten, and how much longer it can run. `None`: nothing.
    #[must_use]
    pub fn forgotten(&self) -> Option<(Why, Millis)> {
        let Some(before) = self.before else {
            let why = if self.back.leases > 0 { Why::Unrecorded } else { Why::Unknown };
            return Some((why, self.longest));
        };
        match before.ended {
            Some(ended) if ended == self.back || ended.leases == 0 => None,
            Some(_) => Some((Why::Lost, before.bound)),
            None if before.log_is_complete && self.log_is_complete => None,
            None => Some((Why::Crash, before.bound)),
        }
    }
}

/// Until when there is quarantine, given what there is of it: the later end counts.
#[must_use]
pub fn extended(
    old: Option<Quarantine>,
    why: Why,
    length: Millis,
    now: Instant,
) -> Option<Quarantine> {
    let new = Quarantine { until: Deadline::after(now, length), why };
    Some(old.filter(|old| old.until >= new.until).unwrap_or(new))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::Fence;

    const NONE: Ended = Ended { leases: 0, digest: 0 };
    const THREE: Ended = Ended { leases: 3, digest: 77 };

    fn before(ended: Option<Ended>, log_is_complete: bool) -> Record {
        let (fence, bound) = (Fence(9), Millis(500));
        Record { node_id: 1, boot: 1, fence, unix: 0, bound, ended, log_is_complete }
    }

    fn forgotten(before: Option<&Record>, log: bool, back: Ended) -> Option<(Why, Millis)> {
        Start { before, log_is_complete: log, back, longest: Millis(40) }.forgotten()
    }

    #[test]
    fn after_a_crash_everything_may_have_been_forgotten() {
        for back in [NONE, THREE] {
            let crash = Some((Why::Crash, Millis(500)));
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
        let lost = Some((Why::Lost, Millis(500)));
        let others = Ended { digest: 78, ..THREE };
        assert_eq!(forgotten(Some(&before(Some(THREE), false)), false, NONE), lost);
        assert_eq!(forgotten(Some(&before(Some(THREE), true)), true, others), lost);
    }

    #[test]
    fn at_the_first_start_the_leases_of_the_data_set_count() {
        assert_eq!(forgotten(None, true, THREE), Some((Why::Unrecorded, Millis(40))));
        let none = Start { before: None, log_is_complete: false, back: NONE, longest: Millis(0) };
        assert_eq!(none.forgotten(), Some((Why::Unknown, Millis(0))));
        assert_eq!(Policy::Auto.length(Millis(0)), None);
    }

    #[test]
    fn the_operator_can_ask_for_more_or_for_none() {
        assert_eq!(Policy::Auto.length(Millis(5)), Some(Millis(5)));
        assert_eq!(Policy::Least(Millis(9)).length(Millis(5)), Some(Millis(9)));
        assert_eq!(Policy::Least(Millis(4)).length(Millis(5)), Some(Millis(5)));
        assert_eq!(Policy::Least(Millis(4)).length(Millis(0)), Some(Millis(4)));
        assert_eq!(Policy::Off.length(Millis(5)), None);
    }

    #[test]
    fn the_later_end_counts() {
        let first = extended(None, Why::Crash, Millis(10), Instant(0));
        assert_eq!(extended(first, Why::Promoted, Millis(5), Instant(0)), first);
        let later = extended(first, Why::Promoted, Millis(11), Instant(0));
        assert_eq!(later, Some(Quarantine { until: Deadline(11), why: Why::Promoted }));
    }
}
