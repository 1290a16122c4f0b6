//! The lengths of leases: of the client's request, and of the agent's request to the nodes.

use std::time::Duration;

use dlock_core::Millis;
use dlock_core::limits::MAX_TTL_CEILING;
use dlock_core::quorum::{Rules, Sound};

/// The length to ask the nodes for, so that a lease lasts `ttl` even with the largest clock drift.
pub fn stretched(ttl: Millis) -> Duration {
    let least = SHORTEST.max(ttl.0);
    // The drift of the longer lease is longer, too: by a hundredth each time.
    let longer = |length| least + Sound.drift(Millis(length)).div_ceil(1_000);
    let length = (0..6).fold(least, |length, _| longer(length));
    Duration::from_millis(length.min(MAX_TTL_CEILING))
}

/// The longest lease for a caller where the nodes grant `most`.
pub fn shortened(most: Millis) -> Millis {
    Millis(most.0.saturating_sub(Sound.drift(most).div_ceil(1_000)))
}

/// The shortest lease of the library, in milliseconds.
const SHORTEST: u64 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_of_the_nodes_lasts_as_long_as_the_caller_was_told() {
        for ttl in [10, 11, 99, 1_000, 30_000, 86_400_000, 4_000_000_000] {
            let asked = u64::try_from(stretched(Millis(ttl)).as_millis()).unwrap();
            let certain = asked * 1_000 - Sound.drift(Millis(asked));
            assert!(certain >= ttl * 1_000, "{ttl}: {asked}");
            assert!(asked <= ttl + ttl / 98 + 4, "{ttl}: {asked}");
            assert!(shortened(Millis(asked)).0 >= ttl, "{ttl}: {asked}");
        }
        for most in [1_000, 86_400_000, 3_600_001] {
            let longest = shortened(Millis(most)).0;
            assert!(stretched(Millis(longest)).as_millis() <= most.into(), "{most}: {longest}");
            assert!(stretched(Millis(longest + 1)).as_millis() > most.into(), "{most}: {longest}");
        }
        assert_eq!(stretched(Millis(MAX_TTL_CEILING)).as_millis(), u128::from(MAX_TTL_CEILING));
        assert!(stretched(Millis(1)).as_millis() >= 10);
    }
}
