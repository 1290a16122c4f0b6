//! The lease bound of this node, which grows and shrinks: the longest time that any lease can still run.
//!
//! After a crash the node may have forgotten some leases, but it has the bound: the state file stores it before
//! the node grants a lease that long. Once this much time has passed, every forgotten lease has ended.
//!
//! - *Safe*: at any moment, each held lease ends within the bound in the state file. While dlock writes the
//!   file, the smaller of the old and the new bound counts.
//! - dlock writes the file before it grants a longer lease. `dlock.max-ttl` limits new leases, and with them
//!   the bound. A lease that arrives from another node, or with a stored data set, raises the bound, however
//!   long it is.
//! - The bound shrinks when no grant waits: to the longest of the held leases and of the leases of the last
//!   five to ten minutes.
//! - A client can force few writes: the bound is rounded up, and to a power of two if it grows again within a
//!   minute, but never beyond `dlock.max-ttl`.

use crate::limits::GROWS_AGAIN;
use crate::words::{Instant, Millis};

/// The lease bound, and the leases that led to it.
#[derive(Clone, Copy, Debug, Default)]
pub struct LeaseBound {
    /// The bound that the state file has at least, even if the last write failed.
    said: Millis,
    /// The longest leases of this period, and of the one before.
    recent: [Millis; 2],
    /// Beginning of this period.
    since: Option<Instant>,
    /// Time of the last rise by a grant.
    raised: Option<Instant>,
}

impl LeaseBound {
    /// The bound in the state file.
    #[must_use]
    pub fn said(&self) -> Millis {
        self.said
    }

    /// The longest possible run of any lease that this node granted or received.
    #[must_use]
    pub fn least(&self) -> Millis {
        self.said.max(self.recent())
    }

    /// True if the state file covers all known leases.
    #[must_use]
    pub fn is_said(&self) -> bool {
        self.said >= self.recent()
    }

    /// True if the state file allows a lease of this length.
    #[must_use]
    pub fn covers(&self, ttl: Millis) -> bool {
        self.is_said() && ttl <= self.said
    }

    /// Takes note of a lease of this length: granted here, loaded or replicated.
    pub fn saw(&mut self, ttl: Millis) {
        let [this, _] = &mut self.recent;
        *this = ttl.max(*this);
    }

    /// Forgets earlier leases, which have ended or are listed: only the held ones count.
    pub fn restart(&mut self, held: Millis) {
        self.recent = [held, Millis(0)];
    }

    /// True if dlock should rewrite the state file, though no grant waits for it.
    #[must_use]
    pub fn is_stale(&self, now: Instant) -> bool {
        !self.is_said() || self.since.is_none_or(|since| now.since(since) > PERIOD)
    }

    /// The bound to write next. `needed`: a bound from elsewhere, and the time left of the held leases.
    pub fn renew(&mut self, needed: Millis, max_ttl: Millis, now: Instant) -> Millis {
        if now.since(*self.since.get_or_insert(now)) > PERIOD {
            let [this, _] = self.recent;
            self.recent = [Millis(0), this];
            self.since = Some(now);
        }
        no_further(rounded_up, needed.max(self.recent()), max_ttl)
    }

    /// The bound that the state file must have before a lease of this length. The caller must write it at once.
    pub fn raise(&mut self, ttl: Millis, max_ttl: Millis, now: Instant) -> Millis {
        let next = self.said.max(no_further(rounded_up, self.recent(), max_ttl));
        if ttl <= next {
            return next;
        }
        let again = self.raised.is_some_and(|at| now.since(at) < GROWS_AGAIN);
        self.raised = Some(now);
        let grown = if again { power_of_two } else { rounded_up };
        no_further(grown, ttl, max_ttl)
    }

    /// Notes that a write of this bound has begun: the file may have this bound, or still the one before.
    pub fn asked(&mut self, bound: Millis) {
        self.said = self.said.min(bound);
    }

    /// Notes that the state file has this bound.
    pub fn promise(&mut self, bound: Millis) {
        self.said = bound;
    }

    fn recent(&self) -> Millis {
        let [this, before] = self.recent;
        this.max(before)
    }
}

/// Rounds a bound up, but at most to `dlock.max-ttl`: only a lease in use is longer.
fn no_further(up: fn(Millis) -> Millis, bound: Millis, max_ttl: Millis) -> Millis {
    up(bound).min(max_ttl).max(bound)
}

/// The next number with four significant binary digits: at most an eighth more.
#[must_use]
pub fn rounded_up(Millis(ms): Millis) -> Millis {
    let step = 1 << ms.checked_ilog2().unwrap_or(0).saturating_sub(3);
    Millis(ms.div_ceil(step).saturating_mul(step))
}

fn power_of_two(Millis(ms): Millis) -> Millis {
    Millis(ms.next_power_of_two())
}

/// The longest lease counts at least this long: five minutes, in µs.
const PERIOD: u64 = 5 * 60 * 1_000_000;

#[cfg(test)]
mod tests;
