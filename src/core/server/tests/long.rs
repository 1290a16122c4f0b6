//! Long leases and crashes: no key is ever granted while somebody may hold it, and a long lease keeps
//! no other key waiting.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use proptest::prelude::*;
use proptest::sample::Index;

use super::bench::{Bench, KEY};
use crate::durability::lease_bound::{KeyHash, LeaseBound};
use crate::durability::promise::Promise;
use crate::durability::quarantine::{Cause, Policy};
use crate::host::WaitOutcome;
use crate::limits::{FEW_LONG_KEYS, MAX_LONG_KEYS};
use crate::reason::Reason;
use crate::server::{Acquired, Node};
use crate::words::{Fence, Key, Millis, Owner};

const HOUR: u64 = 3_600_000;

/// A lease that somebody was told of and has not given back.
struct Held {
    name: String,
    token: String,
    /// In µs.
    end: u64,
}

/// One node, its state file, and everybody who has a lease.
struct Site {
    bench: Bench,
    /// The possible contents of the state file.
    file: Vec<Promise>,
    /// The write that is under way.
    on_its_way: Option<Promise>,
    held: Vec<Held>,
    tokens: u64,
}

#[derive(Clone, Debug)]
enum Step {
    Acquire {
        key: u8,
        owner: u8,
        ttl: u64,
    },
    Extend {
        which: Index,
        ttl: u64,
    },
    Release(Index),
    Delete(u8),
    Pass(u64),
    /// The file is written in the background: begun, and done.
    Begin,
    Done,
    Disk {
        is_full: bool,
    },
    Crash(Index),
    Promoted,
}

fn ttl() -> impl Strategy<Value = u64> {
    prop_oneof![1..100_u64, 20_000..90_000_u64, 60_000..HOUR, HOUR..20 * HOUR]
}

fn step() -> impl Strategy<Value = Step> {
    let key = || prop_oneof![0..3_u8, any::<u8>()];
    prop_oneof![
        12 => (key(), 0..3_u8, ttl()).prop_map(|(key, owner, ttl)| Step::Acquire { key, owner, ttl }),
        3 => (any::<Index>(), ttl()).prop_map(|(which, ttl)| Step::Extend { which, ttl }),
        2 => any::<Index>().prop_map(Step::Release),
        1 => key().prop_map(Step::Delete),
        3 => prop_oneof![0..100_u64, 20_000..90_000_u64, 60_000..HOUR, HOUR..20 * HOUR].prop_map(Step::Pass),
        2 => Just(Step::Begin),
        2 => Just(Step::Done),
        1 => any::<bool>().prop_map(|is_full| Step::Disk { is_full }),
        1 => any::<Index>().prop_map(Step::Crash),
        1 => Just(Step::Promoted),
    ]
}

fn key(name: &str) -> Key<'_> {
    Key { db: 0, name: name.as_bytes() }
}

impl Site {
    fn new() -> Site {
        let mut bench = Bench::new();
        bench.node.settings.usual_ttl = HOUR;
        let nothing = Promise {
            fence: Fence(0),
            unix: 0,
            bound: LeaseBound::default(),
            ..Promise::default()
        };
        Site { bench, file: [nothing].into(), on_its_way: None, held: Vec::new(), tokens: 0 }
    }

    fn take(&mut self, step: Step) -> Result<(), TestCaseError> {
        match step {
            Step::Acquire { key, owner, ttl } => self.acquire(&format!("{key}"), owner, ttl)?,
            Step::Extend { which, ttl } => self.extend(which, ttl),
            Step::Release(which) => self.release(which),
            Step::Delete(name) => self.delete(&format!("{name}")),
            Step::Pass(ms) => {
                self.bench.pass_and_sweep(ms * 1000);
                let now = self.bench.now;
                self.held.retain(|held| held.end > now);
            }
            Step::Begin if self.on_its_way.is_none() => {
                self.on_its_way = Some(self.bench.next_promise());
                self.file.extend(self.on_its_way.clone());
            }
            Step::Done => self.done(),
            Step::Disk { is_full } => self.bench.host.disk_is_full = is_full,
            Step::Crash(which) => {
                let said = which.get(&self.file).clone();
                self.on_its_way = None;
                self.file = [said.clone()].into();
                self.bench.crash(said);
            }
            Step::Promoted => self.promote(),
            Step::Begin => {}
        }
        // A grant that waits for the file waits for what is on its way as well.
        let written = core::mem::take(&mut self.bench.host.promises);
        if let Some(written) = written.last() {
            (self.file, self.on_its_way) = ([written.clone()].into(), None);
        }
        self.file.append(&mut self.bench.host.failed);
        self.check()
    }

    fn done(&mut self) {
        let Some(promise) = self.on_its_way.take() else { return };
        if !self.bench.host.disk_is_full {
            self.file = [promise.clone()].into();
            self.bench.node.promised(promise);
        }
    }

    fn acquire(&mut self, name: &str, owner: u8, ttl: u64) -> Result<(), TestCaseError> {
        self.tokens += 1;
        let token = format!("{}", self.tokens);
        let now = self.bench.now;
        self.bench.host.owner = Owner(u64::from(owner));
        match self.bench.acquire_at(key(name), 1, &format!("{token} {ttl}")) {
            Ok(Acquired::Granted(_)) => {
                let other = |held: &&Held| held.name == name && held.end > now;
                let other = self.held.iter().find(other).map(|held| (&held.token, held.end - now));
                prop_assert!(other.is_none(), "{name} is {other:?}'s");
                self.held.push(Held { name: name.into(), token, end: now + ttl * 1000 });
            }
            Ok(_) | Err(Reason::Quarantine { .. } | Reason::NotDurable) => {}
            Err(Reason::TooManyLong { usual }) => prop_assert!(ttl > usual, "{ttl}"),
            other => prop_assert!(false, "{other:?}"),
        }
        Ok(())
    }

    fn extend(&mut self, which: Index, ttl: u64) {
        if self.held.is_empty() {
            return;
        }
        let held = which.index(self.held.len());
        let Held { name, token, end } = &mut self.held[held];
        if self.bench.extend_at(key(name), &format!("{token} {ttl}")) == Ok(true) {
            *end = self.bench.now + ttl * 1000;
        }
    }

    fn release(&mut self, which: Index) {
        if self.held.is_empty() {
            return;
        }
        let Held { name, token, .. } = self.held.remove(which.index(self.held.len()));
        let _ = self.bench.release_at(key(&name), &token);
    }

    /// DEL: the lease is over. One that was forgotten is not.
    fn delete(&mut self, name: &str) {
        let here = key(name).to_owned();
        let (_, holders) = self.bench.host.holders(&here);
        let Some(holder) = holders.first() else { return };
        let token = holder.grant().token;
        self.held.retain(|held| held.token.as_bytes() != token);
        self.bench.host.take(&here);
        self.bench.removed(key(name), Fence(0));
    }

    /// A replica takes over that was told all promises, and has not got a single lock.
    fn promote(&mut self) {
        let (told, now) = (self.bench.node.promise(self.bench.time()), self.bench.now);
        let settings = self.bench.node.settings;
        self.bench = Bench::new();
        self.bench.pass(now - self.bench.now);
        self.bench.node = Node { settings, ..Node::default() };
        self.bench.follow();
        self.bench.inherit(told);
        let time = self.bench.time();
        self.bench.node.promoted(time);
        let promise = self.bench.write();
        (self.file, self.on_its_way) = ([promise].into(), None);
    }

    /// Whatever the file says now, it says enough of every lease.
    fn check(&self) -> Result<(), TestCaseError> {
        for held in &self.held {
            let left = held.end.saturating_sub(self.bench.now) / 1000;
            for said in &self.file {
                let said = said.longest().of(KeyHash::of(held.name.as_bytes()));
                prop_assert!(said >= Millis(left), "{} has {left} ms, and {said:?}", held.name);
            }
        }
        let many = self.file.iter().map(|said| said.longest().long_keys()).max();
        prop_assert!(many <= Some(MAX_LONG_KEYS));
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn whatever_happens_no_key_is_granted_while_somebody_may_hold_it(
        steps in prop::collection::vec(step(), 1..400),
    ) {
        let mut site = Site::new();
        for step in steps {
            site.take(step)?;
        }
    }
}

/// A node after a crash; its state file has two keys, of which one had a long lease.
fn crashed() -> Bench {
    let mut bound = LeaseBound::usual_of(Millis(500));
    bound.raise(KeyHash::of(b"long"), Millis(HOUR));
    let mut bench = Bench::new();
    bench.crash(Promise { fence: Fence(5_000_000), unix: 0, bound, ..Promise::default() });
    bench
}

const LONG: Key<'_> = Key { db: 0, name: b"long" };

#[test]
fn a_key_with_a_long_lease_stays_in_quarantine_alone() {
    let mut bench = crashed();
    let refused = |left| Err(Reason::Quarantine { cause: Cause::Crash, left: Millis(left) });
    assert_eq!(bench.acquire(1, "a 10"), refused(500));
    assert_eq!(bench.acquire_at(LONG, 1, "a 10"), refused(HOUR));
    assert_eq!(bench.acquire_at(Key { db: 7, ..LONG }, 1, "a 10"), refused(HOUR), "after a SWAPDB");
    bench.pass_and_sweep(500_000);
    bench.hold(1, "a 10");
    assert_eq!(bench.acquire_at(LONG, 1, "a 10"), refused(HOUR - 500));
    let time = bench.time();
    assert!(!bench.node.is_in_quarantine(time.now) && bench.node.may_have_forgotten(time.now));
    bench.pass_and_sweep((HOUR - 500) * 1000);
    assert!(matches!(bench.acquire_at(LONG, 1, "a 10"), Ok(Acquired::Granted(_))));
    assert_eq!(bench.node.durable.in_quarantine(), None);
}

#[test]
fn waiters_are_woken_at_the_end_of_their_keys_quarantine() {
    let mut bench = crashed();
    let Ok(Acquired::Waiting(long)) = bench.acquire_at(LONG, 1, "a 10 WAIT 0") else { panic!() };
    let usual = bench.wait(2, "a 10 WAIT 0");
    assert_eq!(bench.node.next_wake().map(|end| end.0), Some(1_500));
    bench.pass_and_sweep(500_000);
    assert!(matches!(bench.answers()[..], [(id, WaitOutcome::Granted(_))] if id == usual));
    assert_eq!(bench.node.next_wake().map(|end| end.0), Some(1_000 + HOUR));
    bench.pass_and_sweep((HOUR - 500) * 1000 - 1);
    assert_eq!(bench.answers(), []);
    bench.pass_and_sweep(1);
    assert!(matches!(bench.answers()[..], [(id, WaitOutcome::Granted(_))] if id == long));
}

#[test]
fn the_operator_can_end_the_quarantine_of_a_key() {
    let mut bench = crashed();
    bench.pass_and_sweep(500_000);
    bench.node.settings.quarantine = Policy::Off;
    assert!(matches!(bench.acquire_at(LONG, 1, "a 10"), Ok(Acquired::Granted(_))));
}

#[test]
fn a_second_crash_forgets_nothing_of_the_first() {
    let mut bench = crashed();
    bench.pass(200_000);
    let said = bench.write();
    assert!(said.longest().of(KeyHash::of(b"long")) >= Millis(HOUR - 200));
    assert!((Millis(300)..Millis(350)).contains(&said.longest().usual()));
    bench.crash(said);
    bench.pass_and_sweep(350_000);
    bench.hold(1, "a 10");
    assert!(bench.acquire_at(LONG, 1, "a 10").is_err());
}

#[test]
fn a_promoted_replica_keeps_back_the_keys_that_it_heard_or_was_told_of() {
    let mut bench = Bench::new();
    bench.follow();
    let mut bound = LeaseBound::usual_of(Millis(3_000));
    bound.raise(KeyHash::of(b"long"), Millis(HOUR));
    bench.inherit(Promise { fence: Fence(7), unix: 0, bound, ..Promise::default() });
    bench.node.heard_of(KEY, Fence(8), Millis(2 * HOUR));
    bench.node.promoted(bench.time());
    let left = |bench: &mut Bench, key| match bench.acquire_at(key, 1, "a 10") {
        Err(Reason::Quarantine { left, .. }) => left.0,
        other => panic!("{other:?}"),
    };
    let keys = [KEY, LONG, Key { db: 0, name: b"another" }];
    assert_eq!(keys.map(|key| left(&mut bench, key)), [2 * HOUR, HOUR, 3_000]);
}

#[test]
fn one_long_lease_too_many_is_refused_and_leaves_no_trace() {
    let mut bench = Bench::new();
    let name = |n: usize| format!("{n}");
    for n in 0..MAX_LONG_KEYS / 2 {
        assert!(bench.acquire_at(key(&name(n)), 1, "a 7200000").is_ok(), "{n}");
    }
    bench.pass(120_000_000);
    let before = format!(
        "{:?} {:?} {:?}",
        bench.host,
        bench.node.durable.fence(),
        bench.node.waiting.queues
    );
    let refusal = Reason::TooManyLong { usual: HOUR };
    assert_eq!(bench.acquire(1, "b 7200000"), Err(refusal));
    assert_eq!(bench.acquire(1, "b 7200000 WAIT 0"), Err(refusal), "it does not wait");
    assert_eq!(
        format!(
            "{:?} {:?} {:?}",
            bench.host,
            bench.node.durable.fence(),
            bench.node.waiting.queues
        ),
        before
    );
    bench.hold(1, "b 3600000");
    assert_eq!(bench.extend("b 7200000"), Err(refusal));
    let waiter = bench.wait(2, "c 7200000 WAIT 0");
    bench.release("b");
    assert_eq!(
        bench.answers(),
        [(waiter, WaitOutcome::Refused(Reason::TooManyLong { usual: HOUR }))]
    );
    bench.host.owner = Owner(2);
    bench.hold(1, "b 7200000");
}

#[test]
fn a_waiter_counts_for_its_user_whoever_lets_it_have_the_lock() {
    let mut bench = Bench::new();
    bench.hold(1, "a 1000");
    bench.host.owner = Owner(2);
    let waiter = bench.wait(2, "b 7200000 WAIT 0");
    bench.host.owner = Owner(1);
    for n in 0..MAX_LONG_KEYS / 2 {
        assert!(bench.acquire_at(key(&format!("{n}")), 1, "a 7200000").is_ok(), "{n}");
    }
    bench.release("a");
    assert!(matches!(bench.answers()[..], [(id, WaitOutcome::Granted(_))] if id == waiter));
}

#[test]
fn a_lease_that_many_have_is_written_once_for_all() {
    let mut bench = Bench::new();
    for n in 0..10 * FEW_LONG_KEYS {
        bench.take_at(key(&format!("{n}")), "a 1800000");
    }
    assert_eq!(bench.host.promises.len(), FEW_LONG_KEYS + 1);
}

/// By PROMISE's text, too.
#[test]
fn a_steady_workload_of_long_leases_writes_each_key_once() {
    let mut bench = Bench::new();
    for minute in 0..300 {
        for name in ["nightly", "hourly", "report"] {
            let words = ["a 14400000", "a 3600000", "a 600000"][minute % 3];
            let _ = bench.acquire_at(key(name), 1, words);
        }
        if minute % 5 == 0 {
            bench.write();
        }
        bench.pass(60_000_000);
    }
    let writes = bench.host.promises.len();
    // One of them may grow once more, and each fence that a minute needs is written in time.
    assert!(writes <= 6, "{writes}");
}
