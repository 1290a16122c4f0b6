//! The checker itself, on made-up histories.

use super::*;

/// Made-up grants, with times in milliseconds.
struct Story {
    history: History,
}

impl Story {
    fn new() -> Story {
        Story { history: History::default() }
    }

    fn at(&self, millis: u64) -> Instant {
        self.history.begun + Duration::from_millis(millis)
    }

    fn grant(&self, fence: i64, asked: u64, granted: u64, ttl: u64) -> Grant {
        let grant = Grant::new("job", "alice", fence, self.at(asked), Duration::from_millis(ttl));
        Grant { granted: self.at(granted), ..grant }
    }

    fn with(self, grant: impl FnOnce(&Story) -> Grant) -> Story {
        self.history.add(grant(&self));
        self
    }

    fn broken(&self) -> Vec<Promise> {
        self.history.violations().iter().map(|found| found.promise).collect()
    }
}

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn nothing_is_wrong_with_no_grants() {
    assert_eq!(Story::new().broken(), []);
}

#[test]
fn a_grant_before_the_end_of_another_is_an_overlap() {
    let story = Story::new().with(|s| s.grant(1, 0, 10, 100)).with(|s| s.grant(2, 50, 99, 100));
    assert_eq!(story.broken(), [Promise::Exclusion]);
}

#[test]
fn a_grant_at_the_end_of_another_is_right() {
    let story = Story::new().with(|s| s.grant(1, 0, 10, 100)).with(|s| s.grant(2, 50, 100, 100));
    assert_eq!(story.broken(), []);
}

#[test]
fn a_lease_counts_from_the_request_and_not_from_its_answer() {
    let story = Story::new().with(|s| s.grant(1, 0, 90, 100)).with(|s| s.grant(2, 50, 101, 100));
    assert_eq!(story.broken(), []);
}

#[test]
fn those_that_share_a_lock_may_overlap() {
    let story = Story::new()
        .with(|s| s.grant(1, 0, 10, 100).shared())
        .with(|s| s.grant(2, 20, 30, 100).shared());
    assert_eq!(story.broken(), []);
}

#[test]
fn an_exclusive_grant_beside_a_shared_one_is_an_overlap() {
    let exclusive_last =
        Story::new().with(|s| s.grant(1, 0, 10, 100).shared()).with(|s| s.grant(2, 20, 30, 100));
    assert_eq!(exclusive_last.broken(), [Promise::Exclusion]);
    let shared_last =
        Story::new().with(|s| s.grant(1, 0, 10, 100)).with(|s| s.grant(2, 20, 30, 100).shared());
    assert_eq!(shared_last.broken(), [Promise::Exclusion]);
}

#[test]
fn a_released_lock_can_be_granted() {
    let released = |s: &Story| {
        let mut grant = s.grant(1, 0, 10, 1000);
        grant.ended(s.at(50));
        grant
    };
    let story = Story::new().with(released).with(|s| s.grant(2, 20, 50, 100));
    assert_eq!(story.broken(), []);
    let too_early = Story::new().with(released).with(|s| s.grant(2, 20, 49, 100));
    assert_eq!(too_early.broken(), [Promise::Exclusion]);
}

#[test]
fn an_extended_lease_is_counted_from_its_extension() {
    let extended = |s: &Story| {
        let mut grant = s.grant(1, 0, 10, 100);
        grant.extended(s.at(90), SECOND);
        grant
    };
    let story = Story::new().with(extended).with(|s| s.grant(2, 1080, 1089, 100));
    assert_eq!(story.broken(), [Promise::Exclusion]);
    let story = Story::new().with(extended).with(|s| s.grant(2, 1080, 1090, 100));
    assert_eq!(story.broken(), []);
}

#[test]
fn an_extension_without_an_answer_may_shorten_a_lease_and_never_lengthens_it() {
    let longer = |s: &Story| {
        let mut grant = s.grant(1, 0, 10, 100);
        grant.perhaps_extended(s.at(50), SECOND);
        grant
    };
    let story = Story::new().with(longer).with(|s| s.grant(2, 50, 100, 100));
    assert_eq!(story.broken(), []);
    let story = Story::new().with(longer).with(|s| s.grant(2, 20, 99, 100));
    assert_eq!(story.broken(), [Promise::Exclusion]);
    let shorter = |s: &Story| {
        let mut grant = s.grant(1, 0, 10, 5000);
        grant.perhaps_extended(s.at(50), SECOND);
        grant
    };
    let story = Story::new().with(shorter).with(|s| s.grant(2, 1000, 1050, 100));
    assert_eq!(story.broken(), []);
}

#[test]
fn a_smaller_fence_for_a_later_request_is_found() {
    let story = Story::new().with(|s| s.grant(7, 0, 10, 20)).with(|s| s.grant(6, 30, 40, 20));
    assert_eq!(story.broken(), [Promise::FenceOrder]);
}

#[test]
fn requests_at_the_same_time_may_have_their_fences_in_any_order() {
    let story = Story::new().with(|s| s.grant(7, 0, 30, 20)).with(|s| s.grant(6, 30, 40, 20));
    assert_eq!(story.broken(), []);
}

#[test]
fn a_fence_that_is_used_twice_is_found_even_for_requests_at_the_same_time() {
    let story = Story::new().with(|s| s.grant(7, 0, 30, 20)).with(|s| s.grant(7, 10, 40, 20));
    assert_eq!(story.broken(), [Promise::FenceUsedOnce]);
}
