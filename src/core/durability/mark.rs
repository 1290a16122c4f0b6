//! A mark: the largest fence that a resource has seen. A holder that shows a smaller one is late.

use crate::limits::{MAX_FENCE, MAX_MARK_AHEAD};
use crate::words::Fence;

/// The result of showing a fence to a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The mark has seen a larger fence: this one, which it keeps.
    Stale(Fence),
    /// The mark has seen the same fence: its holder asks again.
    Same,
    /// The mark rises to the fence of a new holder.
    Rises,
}

/// Shows a fence to a mark. `None`: there is no mark yet.
#[must_use]
pub fn show(mark: Option<Fence>, fence: Fence) -> Verdict {
    match mark {
        Some(mark) if fence < mark => Verdict::Stale(mark),
        Some(mark) if fence == mark => Verdict::Same,
        _ => Verdict::Rises,
    }
}

/// The largest fence that a mark accepts now. Fences follow the clock, so a larger one is a mistake or an
/// attack, and would lock out the true holders.
#[must_use]
pub fn most(unix: u64) -> Fence {
    Fence(unix.saturating_add(MAX_MARK_AHEAD).min(MAX_FENCE))
}

/// The fence for a stored number; `None` if the number is not a fence.
#[must_use]
pub fn stored(number: u64) -> Option<Fence> {
    (1..=MAX_FENCE).contains(&number).then_some(Fence(number))
}

/// The mark after a RESTORE over it: its fence never falls.
#[must_use]
pub fn restored(copy: Fence, there: Option<Fence>) -> Fence {
    there.map_or(copy, |there| there.max(copy))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_smaller_fence_is_stale_and_hears_of_the_larger_one() {
        assert_eq!(show(Some(Fence(9)), Fence(8)), Verdict::Stale(Fence(9)));
        assert_eq!(show(Some(Fence(9)), Fence(9)), Verdict::Same);
        assert_eq!(show(Some(Fence(9)), Fence(10)), Verdict::Rises);
        assert_eq!(show(None, Fence(1)), Verdict::Rises);
    }

    #[test]
    fn a_fence_of_the_day_after_tomorrow_is_too_large() {
        let day = 24 * 3600 * 1_000_000;
        assert_eq!(most(day), Fence(2 * day));
        assert_eq!(most(u64::MAX), Fence(MAX_FENCE));
    }

    #[test]
    fn only_fences_are_stored() {
        assert_eq!(stored(0), None);
        assert_eq!(stored(1), Some(Fence(1)));
        assert_eq!(stored(MAX_FENCE), Some(Fence(MAX_FENCE)));
        assert_eq!(stored(MAX_FENCE + 1), None);
    }

    proptest! {
        #[test]
        fn a_mark_is_the_largest_fence_that_it_let_through(
            shown in proptest::collection::vec(1_u64..50, 0..60),
            copies in proptest::collection::vec(1_u64..50, 0..60),
        ) {
            let (mut mark, mut largest) = (None, None);
            for (fence, copy) in shown.into_iter().map(Fence).zip(copies.into_iter().map(Fence)) {
                match show(mark, fence) {
                    Verdict::Stale(seen) => prop_assert!(fence < seen && Some(seen) == largest),
                    Verdict::Same => prop_assert_eq!(Some(fence), largest),
                    Verdict::Rises => {
                        prop_assert!(largest < Some(fence));
                        (mark, largest) = (Some(fence), Some(fence));
                    }
                }
                if copy.0 % 5 == 0 {
                    mark = Some(restored(copy, mark));
                    largest = largest.max(Some(copy));
                }
                prop_assert_eq!(mark, largest);
            }
        }
    }
}
