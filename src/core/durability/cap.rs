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
