//! Fences ahead of the clock: how far clients can drive them, the cost for other clients, and crashes and
//! clocks that differ.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::bench::{Bench, KEY};
use crate::durability::quarantine::Policy;
use crate::durability::slot::Slot;
use crate::limits::{MAX_FENCE, MAX_FENCE_AHEAD, MAX_LEAD};
use crate::node::Acquired;
use crate::reason::Reason;
use crate::words::{Fence, Key, Time};

const SECOND: u64 = 1_000_000;
const MINUTE: u64 = 60 * SECOND;
const OTHER: Key<'static> = Key { db: 0, name: b"other" };

/// A node with a wall clock that may be ahead of other nodes'.
struct Site {
    bench: Bench,
}

impl Site {
    fn new(ahead: u64) -> Site {
        let mut site = Site { bench: Bench { ahead, ..Bench::new() } };
        site.bench.node.settings.quarantine = Policy::Off;
        site.write();
        site
    }

    fn time(&self) -> Time {
        self.bench.time()
    }

    fn acquire(&mut self, key: Key<'_>, token: &str, fence: u64) -> Result<u64, u64> {
        let proposal = if fence > 0 { format!(" FENCE {fence}") } else { String::new() };
        match self.bench.acquire_at(key, 1, &format!("{token} 1000{proposal}")) {
            Ok(Acquired::Granted(fence)) => Ok(fence.0),
            Err(Reason::TooFar { most, .. } | Reason::TooManyAhead { most, .. }) => Err(most),
            other => panic!("{token}: {other:?}"),
        }
    }

    fn raise(&mut self, key: Key<'_>, token: &str, fence: u64) -> Result<bool, u64> {
        match self.bench.extend_at(key, &format!("{token} 1000 FENCE {fence}")) {
            Ok(extended) => Ok(extended),
            Err(Reason::TooFar { most, .. }) => Err(most),
            Err(other) => panic!("{other:?}"),
        }
    }

    fn release(&mut self, key: Key<'_>, token: &str) {
        self.bench.release_at(key, token).unwrap();
    }

    /// DEL of a lock.
    fn delete(&mut self, key: Key<'_>) {
        let (_, holders) = self.bench.host.holders(&key.to_owned());
        self.bench.host.take(&key.to_owned());
        let top = holders.iter().map(|holder| holder.grant().fence).max();
        self.bench.removed(key, top.unwrap_or(Fence(0)));
    }

    fn farthest(&mut self) -> u64 {
        let time = self.time();
        self.bench.node.durable.counter.look(time);
        self.bench.node.durable.counter.farthest().0
    }

    /// The server crashes, and starts again with its state file alone.
    fn crash(&mut self) {
        let said = *self.bench.host.promises.last().unwrap();
        self.bench.crash(said);
        self.write();
    }

    /// The state file is written, as it is at each start and in the background.
    fn write(&mut self) {
        let promise = self.bench.write();
        self.bench.host.promises.push(promise);
    }

    fn pass(&mut self, micros: u64) {
        self.bench.pass(micros);
    }
}

/// A correct client's attempt over several nodes: the same number from a majority, or none.
fn attempt(sites: &mut [Site], key: Key<'_>, proposal: u64) -> Option<u64> {
    let ask = |site: &mut Site| {
        let granted = site.acquire(key, "honest", proposal);
        granted.or_else(|_| site.acquire(key, "honest", 0)).unwrap()
    };
    let fences: Vec<u64> = sites.iter_mut().map(ask).collect();
    let majority = sites.len() / 2 + 1;
    let mut sorted = fences.clone();
    sorted.sort_unstable();
    let claim = sorted[majority - 1];
    let agrees = |(site, fence): (&mut Site, &u64)| {
        *fence <= claim && site.raise(key, "honest", claim) == Ok(true)
    };
    let agreeing = sites.iter_mut().zip(&fences).filter(|(_, fence)| **fence <= claim);
    let agreeing = agreeing.map(agrees).filter(|agrees| *agrees).count();
    sites.iter_mut().for_each(|site| site.release(key, "honest"));
    (agreeing >= majority).then_some(claim)
}

/// Another key with the same counter as this one.
fn neighbour(key: Key<'_>) -> Vec<u8> {
    let names = (0..).map(|n| format!("neighbour{n}").into_bytes());
    names.into_iter().find(|name| Slot::of(name) == Slot::of(key.name)).unwrap()
}

#[test]
fn steps_of_a_client_that_proposes_ever_larger_fences_do_not_add_up() {
    let mut site = Site::new(0);
    site.acquire(KEY, "eve", 0).unwrap();
    for _ in 0..20_000 {
        let most = site.farthest();
        assert_eq!(site.raise(KEY, "eve", most), Ok(true));
        assert_eq!(site.raise(KEY, "eve", most + 1), Err(most));
        site.pass(1000);
    }
    site.delete(KEY);
    let lead = site.bench.node.durable.counter.last().0 - site.time().unix;
    assert!(
        lead <= MAX_FENCE_AHEAD && site.bench.node.durable.counter.last().0 < MAX_FENCE / 2,
        "{lead}"
    );
    let unix = site.time().unix;
    assert_eq!(site.acquire(OTHER, "honest", unix), Ok(unix), "another key goes on as before");
}

#[test]
fn a_client_can_force_a_few_writes_a_minute() {
    let mut site = Site::new(0);
    site.acquire(KEY, "eve", 0).unwrap();
    let minutes = 60;
    for _ in 0..minutes * 600 {
        // The fence is just enough above the promised one to force a write.
        let beyond = site.bench.node.promise(site.time()).fence.0 + 1;
        let most = site.farthest();
        let _ = site.raise(KEY, "eve", beyond.min(most));
        site.pass(SECOND / 10);
    }
    let climb = MAX_FENCE_AHEAD / (5 * SECOND);
    let writes = site.bench.host.promises.len() as u64;
    assert!(writes <= 12 * minutes + climb + 2, "{writes} writes in {minutes} minutes");
}

#[test]
fn a_client_that_works_on_all_nodes_stops_no_other_key() {
    let mut sites = [0, 3 * SECOND, 90 * SECOND].map(Site::new);
    let shared = neighbour(KEY);
    let shared = Key { db: 0, name: &shared };
    let mut last = 0;
    for round in 0..200 {
        for site in &mut sites {
            // The fence is as far as possible, and the lock is then removed from outside.
            let far = site.farthest();
            site.acquire(KEY, "eve", far).unwrap();
            site.delete(KEY);
        }
        for _ in 0..2 {
            let unix = sites[0].time().unix;
            let claim = attempt(&mut sites, OTHER, unix.max(last + 1));
            assert!(claim.is_some_and(|claim| claim > last), "round {round}");
            last = claim.unwrap();
        }
        sites.iter_mut().for_each(|site| site.pass(10 * SECOND));
        // A key that shares a counter with the pushing user's is pushed. It goes on once its numbers are
        // acceptable at all nodes. Their clocks differ by 90 seconds here.
        if round % 20 == 19 {
            sites.iter_mut().for_each(|site| site.pass(90 * SECOND));
            assert!(attempt(&mut sites, shared, 1).is_some(), "round {round}");
        }
    }
}

#[test]
fn clients_whose_clocks_differ_by_minutes_get_the_same_number_from_all() {
    for proposed in [0, 4 * MINUTE, 9 * MINUTE] {
        let mut sites = [0, SECOND / 2, SECOND].map(Site::new);
        for round in 1..50 {
            let unix = sites[0].time().unix;
            let ahead = attempt(&mut sites, OTHER, unix + proposed).unwrap();
            let behind = attempt(&mut sites, OTHER, unix.saturating_sub(proposed).max(1)).unwrap();
            assert!(behind > ahead, "round {round}");
            sites.iter_mut().for_each(|site| site.pass(SECOND));
        }
        // A client's proposal far ahead of the nodes' clocks is dropped, without other effects.
        let unix = sites[0].time().unix;
        assert!(attempt(&mut sites, OTHER, unix + 3 * MAX_FENCE_AHEAD).is_some());
    }
}

#[test]
fn ten_crashes_in_a_row_drive_fences_ahead_little_more_than_one() {
    let mut sites = [0, SECOND, 2 * SECOND].map(Site::new);
    let mut last = attempt(&mut sites, OTHER, 1).unwrap();
    for _ in 0..10 {
        for site in 0..2 {
            sites[site].crash();
            sites.iter_mut().for_each(|site| site.pass(SECOND / 10));
            // Any two of three nodes are enough.
            for pair in [0..2, 1..3] {
                let unix = sites[0].time().unix;
                let claim = attempt(&mut sites[pair], OTHER, unix.max(last + 1)).unwrap();
                assert!(claim > last);
                last = claim;
            }
        }
    }
    let lead = last - sites[0].time().unix;
    assert!(lead < 3 * MINUTE, "{} s ahead", lead / SECOND);
}

#[test]
fn a_node_whose_clock_was_set_back_between_two_lives_takes_part_as_before() {
    let hour = 60 * MINUTE;
    let mut sites = [hour, hour, hour].map(Site::new);
    let unix = sites[0].time().unix;
    let last = attempt(&mut sites, OTHER, unix).unwrap();
    sites[0].write();
    // From now on its wall clock is an hour behind the other nodes'.
    sites[0].bench.ahead = 0;
    sites[0].crash();
    for _ in 0..1000 {
        sites.iter_mut().for_each(|site| site.pass(10 * SECOND));
        let unix = sites[1].time().unix;
        let claim = attempt(&mut sites[..2], OTHER, unix);
        assert!(claim.is_some_and(|claim| claim > last), "{claim:?} {last}");
    }
}

/// Another user's proposals ahead of the clock, on as many names as there are slots and more.
fn push_all_slots(site: &mut Site) {
    let most = site.farthest();
    for n in 0..20_000_u32 {
        let name = format!("hers{n}").into_bytes();
        let key = Key { db: 0, name: &name };
        assert!(site.acquire(key, "eve", most).is_ok_and(|fence| fence >= most));
        site.release(key, "eve");
    }
}

#[test]
fn the_farthest_proposals_on_all_slots_keep_no_client_from_a_fence_of_a_majority() {
    let mut sites = [0, 2 * SECOND, 2 * SECOND].map(Site::new);
    sites.iter_mut().for_each(push_all_slots);
    for n in 0..300_u32 {
        let name = format!("job{n}").into_bytes();
        let key = Key { db: 0, name: &name };
        let unix = sites[0].time().unix;
        let claim = attempt(&mut sites[..2], key, unix).unwrap();
        assert!(claim <= unix + 10 * SECOND, "{} s ahead", (claim - unix) / SECOND);
    }
    // The pushing user has its own fences, exactly.
    let most = sites[0].farthest();
    let hers = Key { db: 0, name: b"hers7" };
    assert_eq!(sites[0].acquire(hers, "eve", 1), Ok(most + 1));
}

#[test]
fn only_a_user_with_too_many_keys_ahead_is_refused() {
    let mut site = Site::new(0);
    let far = site.farthest();
    site.bench.host.owner = crate::words::Owner(7);
    let ask = |site: &mut Site, n: u64| {
        let name = n.to_be_bytes();
        let key = Key { db: 0, name: &name };
        let asked = site.acquire(key, "t", far);
        site.release(key, "t");
        asked
    };
    let most = (0..).find(|n| ask(&mut site, *n).is_err()).unwrap();
    assert_eq!(most, crate::limits::MAX_KEYS_AHEAD / 2);
    let refused = ask(&mut site, most).unwrap_err();
    assert_eq!(refused, site.time().unix + crate::limits::MAX_SHARED_AHEAD);
    assert_eq!(ask(&mut site, 0), Ok(far + 1), "a key that is remembered already");
    site.bench.host.owner = crate::words::Owner(8);
    assert_eq!(ask(&mut site, most), Ok(far));
    // Once the clock is there, there is room again.
    site.bench.host.owner = crate::words::Owner(7);
    site.pass(MAX_FENCE_AHEAD);
    let far = site.farthest();
    let hers = Key { db: 0, name: b"hers" };
    assert_eq!(site.acquire(hers, "t", far), Ok(far));
}

const DAY: u64 = 24 * 60 * MINUTE;

/// A node that began with its wall clock a day ahead, and served clients with correct clocks.
fn that_lived_a_day_ahead(ends: impl Fn(&mut Site)) -> Site {
    let mut site = Site::new(DAY);
    site.crash();
    for _ in 0..10 {
        let unix = site.bench.now;
        assert_eq!(site.acquire(OTHER, "honest", unix), Ok(unix), "its clock is nobody's");
        site.release(OTHER, "honest");
        site.pass(20 * SECOND);
        site.write();
    }
    ends(&mut site);
    site.bench.ahead = 0;
    site.crash();
    site
}

#[test]
fn a_node_that_lived_a_day_ahead_makes_a_majority_with_any_other() {
    for used_alone in [false, true] {
        let lived = that_lived_a_day_ahead(|_| {});
        let mut other = Site::new(0);
        other.pass(lived.bench.now - other.bench.now);
        let mut sites = [lived, other];
        for n in 0..2_000_u32 {
            let name = format!("job{n}").into_bytes();
            let key = Key { db: 0, name: &name };
            let unix = sites[1].time().unix;
            let claim = attempt(&mut sites, key, unix).unwrap();
            assert!(claim < unix + 3 * MINUTE, "{} s ahead", (claim - unix) / SECOND);
            if used_alone {
                let fence = sites[0].acquire(key, "alone", 0).unwrap();
                assert!(fence > claim && fence < unix + 3 * MINUTE);
                sites[0].release(key, "alone");
            }
        }
    }
}

#[test]
fn what_a_node_handed_out_by_a_clock_that_was_ahead_is_never_handed_out_again() {
    let mut last = 0;
    let mut site = that_lived_a_day_ahead(|site| {
        assert!(site.acquire(KEY, "alone", 0).unwrap() > DAY);
        site.release(KEY, "alone");
    });
    for proposal in [0, 1, 0, DAY] {
        let fence = site.acquire(KEY, "alone", proposal).unwrap();
        assert!(fence > DAY && fence > last, "{fence}");
        site.release(KEY, "alone");
        (last, site) = (fence, {
            site.crash();
            site
        });
    }
}

#[test]
fn a_clock_that_was_put_right_leaves_no_client_a_way_to_the_day_ahead() {
    let mut site = that_lived_a_day_ahead(|_| {});
    for _ in 0..10 {
        let unix = site.time().unix;
        assert!(site.farthest() <= unix + MAX_FENCE_AHEAD);
        push_all_slots(&mut site);
        site.crash();
        assert!(site.acquire(OTHER, "honest", unix).unwrap() <= unix + MAX_LEAD + SECOND);
        site.release(OTHER, "honest");
        site.pass(SECOND);
    }
}
