//! The lease bound: how much longer any lease of this node can run, at most.
//!
//! After a crash the node may have forgotten leases. It does not know which, but it knows the
//! bound: its state file had to say so before a lease that long was granted. When that time has
//! passed, every forgotten lease has ended.

use crate::words::{Instant, Millis};

/// The bound.
///
/// It grows at once and shrinks slowly, and is rounded up, so that a steady workload never waits
/// for a write.
#[derive(Clone, Debug, Default)]
pub struct Bound {
    /// What the state file says, at least, whatever has become of the last write.
    promised: u64,
    /// The longest lease of this period, and of the one before.
    longest: [u64; 2],
    /// When this period began.
    since: Option<Instant>,
}

impl Bound {
    /// What the state file says.
    #[must_use]
    pub fn promised(&self) -> Millis {
        Millis(self.promised)
    }

    /// No lease that was granted or heard of can run longer.
    #[must_use]
    pub fn least(&self) -> Millis {
        Millis(self.promised.max(self.recent()))
    }

    /// Whether a lease of this length may be granted, by what the state file says.
    #[must_use]
    pub fn covers(&self, ttl: Millis) -> bool {
        self.promised >= ttl.0.max(self.recent())
    }

    /// A lease of this length was granted here, loaded, or replicated.
    pub fn saw(&mut self, ttl: Millis) {
        self.longest[0] = self.longest[0].max(ttl.0);
    }

    /// All leases granted so far are over or known: only the longest that is held counts.
    pub fn restart(&mut self, longest: Millis) {
        self.longest = [longest.0, 0];
    }

    /// Whether the state file should say something else, though nobody waits for it.
    #[must_use]
    pub fn is_stale(&self, now: Instant) -> bool {
        self.promised < self.recent() || self.since.is_none_or(|since| now.since(since) > PERIOD)
    }

    /// What the state file should say, when the longest lease that is held has so much `left`.
    /// With `may_shrink` false it never says less than before.
    pub fn renew(&mut self, left: Millis, now: Instant, may_shrink: bool) -> Millis {
        if now.since(*self.since.get_or_insert(now)) > PERIOD {
            self.longest = [0, self.longest[0]];
            self.since = Some(now);
        }
        let needed = rounded_up(left.0.max(self.recent()));
        Millis(if may_shrink { needed } else { needed.max(self.promised) })
    }

    /// What the state file must say before a lease of this length can be granted.
    #[must_use]
    pub fn raised(&self, ttl: Millis) -> Millis {
        Millis(self.promised.max(rounded_up(ttl.0.max(self.recent()))))
    }

    /// The state file is asked to say so: from now on it may say this, or still what it did.
    pub fn asked(&mut self, bound: Millis) {
        self.promised = self.promised.min(bound.0);
    }

    /// The state file says so.
    pub fn promise(&mut self, bound: Millis) {
        self.promised = bound.0;
    }

    fn recent(&self) -> u64 {
        self.longest[0].max(self.longest[1])
    }
}

/// For how long the longest lease is remembered, at least: five minutes, in µs.
const PERIOD: u64 = 5 * 60 * 1_000_000;

/// The next number with four significant binary digits: at most an eighth more.
fn rounded_up(ms: u64) -> u64 {
    let step = 1 << ms.checked_ilog2().unwrap_or(0).saturating_sub(3);
    ms.div_ceil(step).saturating_mul(step)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MINUTE: u64 = 60_000_000;

    /// The state file is written at once.
    fn write(bound: &mut Bound, left: u64, at: u64) {
        let next = bound.renew(Millis(left), Instant(at), true);
        bound.asked(next);
        bound.promise(next);
    }

    #[test]
    fn a_longer_lease_needs_a_larger_bound() {
        let mut bound = Bound::default();
        assert!(!bound.covers(Millis(1)));
        bound.promise(bound.raised(Millis(10_000)));
        assert_eq!(bound.promised(), Millis(10_240));
        assert!(bound.covers(Millis(10_240)));
        assert!(!bound.covers(Millis(10_241)));
    }

    #[test]
    fn it_shrinks_when_the_long_lease_is_over_and_forgotten() {
        let mut bound = Bound::default();
        bound.saw(Millis(100_000));
        write(&mut bound, 100_000, 0);
        for minute in [4, 6, 10] {
            write(&mut bound, 10, minute * MINUTE);
            assert!(bound.covers(Millis(100_000)), "after {minute} minutes");
        }
        write(&mut bound, 10, 12 * MINUTE);
        assert_eq!(bound.promised(), Millis(10));
    }

    #[test]
    fn it_does_not_shrink_below_what_is_held() {
        let mut bound = Bound::default();
        bound.saw(Millis(3_600_000));
        for minute in 0..60 {
            let left = 3_600_000 - minute * 60_000;
            write(&mut bound, left, minute * MINUTE);
            assert!(bound.covers(Millis(left)), "after {minute} minutes");
        }
    }

    #[test]
    fn a_follower_keeps_the_longest_it_has_heard_of() {
        let mut bound = Bound::default();
        bound.saw(Millis(100_000));
        for minute in [0, 10, 20, 30] {
            let next = bound.renew(Millis(0), Instant(minute * MINUTE), false);
            bound.asked(next);
            bound.promise(next);
        }
        assert!(bound.covers(Millis(100_000)));
    }

    #[test]
    fn while_a_smaller_one_is_being_written_only_that_counts() {
        let mut bound = Bound::default();
        bound.promise(Millis(100));
        bound.asked(Millis(50));
        assert!(!bound.covers(Millis(51)));
        bound.promise(Millis(50));
        assert!(!bound.covers(Millis(51)));
    }

    #[test]
    fn while_a_larger_one_is_being_written_the_old_one_counts() {
        let mut bound = Bound::default();
        bound.promise(Millis(50));
        bound.asked(Millis(100));
        assert!(!bound.covers(Millis(51)));
    }

    #[test]
    fn what_was_heard_of_is_written_before_anything_is_granted() {
        let mut bound = Bound::default();
        bound.promise(Millis(50));
        bound.saw(Millis(70));
        assert!(bound.is_stale(Instant(0)));
        assert!(!bound.covers(Millis(10)));
        assert_eq!(bound.raised(Millis(10)), Millis(72));
    }

    #[test]
    fn after_a_restart_only_what_is_held_counts() {
        let mut bound = Bound::default();
        bound.saw(Millis(100_000));
        bound.restart(Millis(10));
        assert_eq!(bound.raised(Millis(1)), Millis(10));
    }

    #[test]
    fn it_is_looked_at_again_once_in_a_period_and_not_all_the_time() {
        let mut bound = Bound::default();
        assert!(bound.is_stale(Instant(0)), "nothing has been said yet");
        bound.saw(Millis(10));
        write(&mut bound, 10, 0);
        for (at, stale) in [(0, false), (1, false), (PERIOD, false), (PERIOD + 1, true)] {
            assert_eq!(bound.is_stale(Instant(at)), stale, "after {at} µs");
        }
    }

    #[test]
    fn what_is_rounded_up_already_stays() {
        let mut bound = Bound::default();
        bound.saw(Millis(100));
        write(&mut bound, 100, 0);
        assert!(!bound.is_stale(Instant(0)), "it says exactly what is needed");
        write(&mut bound, 100, PERIOD);
        write(&mut bound, 0, 2 * PERIOD);
        assert!(bound.covers(Millis(100)), "one period is not over before its end");
    }

    proptest! {
        #[test]
        fn it_is_rounded_by_an_eighth_at_most(ms in 0..u64::from(u32::MAX) * 2) {
            let rounded = rounded_up(ms);
            prop_assert!(rounded >= ms && rounded - ms <= ms / 8, "{ms} {rounded}");
            prop_assert_eq!(rounded_up(rounded), rounded);
        }
    }
}
