//! The longest lease that a primary with the same settings may have granted.

use crate::words::{Deadline, Instant, Millis};

/// `dlock.max-ttl`, and the end of the leases that a larger former value allowed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cap {
    max_ttl: Millis,
    former: Deadline,
}

impl Cap {
    /// Takes note of the setting. A lowered one counts only once leases of the old length have ended.
    pub fn look(&mut self, max_ttl: Millis, now: Instant) {
        if max_ttl < self.max_ttl {
            self.former = self.former.max(Deadline::after(now, self.max_ttl));
        }
        self.max_ttl = max_ttl;
    }

    /// The longest time that such a lease can still run.
    #[must_use]
    pub fn longest(&self, now: Instant) -> Millis {
        self.max_ttl.max(self.former.left(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lowered_setting_counts_once_leases_of_the_old_length_have_ended() {
        let mut cap = Cap::default();
        let at = |ms: u64| Instant(ms * 1_000);
        cap.look(Millis(3_600_000), at(0));
        cap.look(Millis(1_000), at(5_000));
        cap.look(Millis(500), at(6_000));
        assert_eq!(cap.longest(at(6_000)), Millis(3_599_000));
        assert_eq!(cap.longest(at(3_604_000)), Millis(1_000));
        assert_eq!(cap.longest(at(3_605_000)), Millis(500));
    }

    #[test]
    fn a_raised_setting_counts_at_once() {
        let mut cap = Cap::default();
        cap.look(Millis(1_000), Instant(0));
        cap.look(Millis(2_000), Instant(0));
        assert_eq!(cap.longest(Instant(0)), Millis(2_000));
    }
}
