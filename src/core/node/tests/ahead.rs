//! Fences ahead of the clock: how far clients can drive them, what that costs others, and how they
//! outlive crashes and clocks that differ.

use alloc::format;
use alloc::vec::Vec;

use super::bench::{Bench, KEY};
use crate::bounds::Bounds;
use crate::command::Refusal;
use crate::command::acquire::Acquire;
use crate::command::extend::Extend;
use crate::command::release::Release;
use crate::fence::Slot;
use crate::limits::{MAX_FENCE, MAX_FENCE_AHEAD};
use crate::node::Acquired;
use crate::promise::Promise;
use crate::quarantine::{Policy, Start};
use crate::record::{Ended, Record};
use crate::words::{ClientId, Fence, Key, Millis, Mode, Time};

const SECOND: u64 = 1_000_000;
const MINUTE: u64 = 60 * SECOND;
const OTHER: Key<'static> = Key { db: 0, name: b"other" };

/// A node whose wall clock is ahead of others' by so much.
struct Site {
    bench: Bench,
    ahead: u64,
}

impl Site {
    fn new(ahead: u64) -> Site {
        let mut site = Site { bench: Bench::new(), ahead };
        site.bench.node.settings.quarantine = Policy::Off;
        site.write();
        site
    }

    fn time(&self) -> Time {
        let time = self.bench.time();
        Time { unix: time.unix + self.ahead, ..time }
    }

    fn acquire(&mut self, key: Key<'_>, token: &'static str, fence: u64) -> Result<u64, u64> {
        let ask = Acquire {
            token: token.as_bytes(),
            ttl: Millis(1000),
            mode: Mode::Exclusive,
            wait: None,
            keep: None,
            turn: false,
            fence: (fence > 0).then_some(Fence(fence)),
            ephemeral: false,
            meta: b"",
        };
        let time = self.time();
        match self.bench.node.acquire(&mut self.bench.host, key, &ask, ClientId(1), time) {
            Ok(Acquired::Granted(fence)) => Ok(fence.0),
            Err(Refusal::TooFar { most, .. }) => Err(most),
            other => panic!("{token}: {other:?}"),
        }
    }

    fn raise(&mut self, key: Key<'_>, token: &'static str, fence: u64) -> Result<bool, u64> {
        let (token, fence) = (token.as_bytes(), Some(Fence(fence)));
        let (ask, time) = (Extend { token, ttl: Millis(1000), fence, gt: false }, self.time());
        match self.bench.node.extend(&mut self.bench.host, key, &ask, time) {
            Ok(extended) => Ok(extended),
            Err(Refusal::TooFar { most, .. }) => Err(most),
            Err(other) => panic!("{other:?}"),
        }
    }

    fn release(&mut self, key: Key<'_>, token: &'static str) {
        let time = self.time();
        let host = &mut self.bench.host;
        self.bench
            .node
            .release(host, key, &Release { token: token.as_bytes(), is_final: false }, time)
            .unwrap();
    }

    /// DEL of a lock.
    fn delete(&mut self, key: Key<'_>) {
        let (_, holders) = self.bench.host.holders(&key.to_owned());
        self.bench.host.take(&key.to_owned());
        let top = holders.iter().map(|holder| holder.grant().fence).max();
        self.bench.node.removed(&mut self.bench.host, key, top.unwrap_or(Fence(0)));
    }

    fn farthest(&self) -> u64 {
        self.bench.node.counter.farthest(self.time().unix).0
    }

    /// The server dies, and starts again with its state file alone.
    fn crash(&mut self) {
        let promise = self.bench.host.promises.last().unwrap().clone();
        let Promise { fence, unix, bounds } = promise.clone();
        let (ended, log_is_complete) = (None, false);
        let before = Record { node_id: 1, boot: 1, fence, unix, bounds, ended, log_is_complete };
        let now = self.bench.now;
        *self = Site { bench: Bench::new(), ahead: self.ahead };
        self.bench.pass(now - self.bench.now);
        self.bench.node.settings.quarantine = Policy::Off;
        self.bench.node.resume(&promise, self.bench.time().now);
        let (back, held) = (Ended::default(), &Bounds::default());
        let start = Start { before: Some(&before), log_is_complete, back, held };
        let time = self.time();
        self.bench.node.begin(&start, true, time);
        self.write();
    }

    /// The state file is written, as it is at each start and in the background.
    fn write(&mut self) {
        let time = self.time();
        let promise = self.bench.node.next_promise(self.bench.host.held().into_iter(), time);
        self.bench.node.promised(promise.clone());
        self.bench.host.promises.push(promise);
    }

    fn pass(&mut self, micros: u64) {
        self.bench.pass(micros);
    }
}

/// An honest client's attempt over several nodes: the same number from a majority, or none.
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
    let lead = site.bench.node.fence().0 - site.time().unix;
    assert!(lead <= MAX_FENCE_AHEAD && site.bench.node.fence().0 < MAX_FENCE / 2, "{lead}");
    let unix = site.time().unix;
    assert_eq!(site.acquire(OTHER, "honest", unix), Ok(unix), "another key goes on as before");
}

#[test]
fn a_client_can_force_about_a_write_a_minute() {
    let mut site = Site::new(0);
    site.acquire(KEY, "eve", 0).unwrap();
    let minutes = 60;
    for _ in 0..minutes * 600 {
        // As little above what is vouched for as forces a write.
        let beyond = site.bench.node.promise(site.time()).fence.0 + 1;
        let _ = site.raise(KEY, "eve", beyond.min(site.farthest()));
        site.pass(SECOND / 10);
    }
    let climb = MAX_FENCE_AHEAD / MINUTE;
    let writes = site.bench.host.promises.len() as u64;
    assert!(writes <= minutes + climb + 2, "{writes} writes in {minutes} minutes");
}

#[test]
fn a_client_that_works_on_all_nodes_stops_no_other_key() {
    let mut sites = [0, 3 * SECOND, 90 * SECOND].map(Site::new);
    let shared = neighbour(KEY);
    let shared = Key { db: 0, name: &shared };
    let mut last = 0;
    for round in 0..200 {
        for site in &mut sites {
            // As far as it goes, and then removed behind the module's back.
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
        // What shares a counter with her key is pushed; once her numbers are acceptable at all
        // nodes it goes on. Their clocks differ by 90 seconds here.
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
        // Far ahead of the nodes' clocks a client's proposal is left out, and that is all.
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
            // With two of three nodes, whichever are there.
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
fn crashes_beside_a_client_that_goes_as_far_as_it_can_do_not_add_up_much() {
    let mut site = Site::new(0);
    for _ in 0..10 {
        let far = site.farthest();
        site.acquire(KEY, "eve", far).unwrap();
        site.crash();
        site.pass(SECOND);
    }
    let lead = site.bench.node.fence().0 - site.time().unix;
    assert!(lead < 3 * MAX_FENCE_AHEAD, "{} s ahead", lead / SECOND);
}

#[test]
fn a_node_whose_clock_was_set_back_between_two_lives_takes_part_as_before() {
    let hour = 60 * MINUTE;
    let mut sites = [hour, hour, hour].map(Site::new);
    let unix = sites[0].time().unix;
    let last = attempt(&mut sites, OTHER, unix).unwrap();
    sites[0].write();
    // From now on its wall clock says an hour less than the others'.
    sites[0].ahead = 0;
    sites[0].crash();
    for _ in 0..1000 {
        sites.iter_mut().for_each(|site| site.pass(10 * SECOND));
        // What the module does at each look.
        let wall = sites[0].bench.time();
        sites[0].ahead = sites[0].bench.node.clock.look(wall.now, wall.unix) - wall.unix;
        let unix = sites[1].time().unix;
        let claim = attempt(&mut sites[..2], OTHER, unix);
        assert!(claim.is_some_and(|claim| claim > last), "{claim:?} {last}");
    }
}
