//! Leases of all lengths, granted here or arriving from another node, crashes, promotions, and a `dlock.max-ttl`
//! that changes: no lock is granted while another client may hold it.

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use proptest::prelude::*;
use proptest::sample::Index;

use super::bench::Bench;
use crate::durability::promise::Promise;
use crate::lock::Grant;
use crate::node::host::Host;
use crate::node::{Acquired, Node};
use crate::reason::Reason;
use crate::words::{ClientId, Fence, Instant, Key, Lease, Millis};

const HOUR: u64 = 3_600_000;

/// A lease that a client received and has not released.
struct Held {
    name: String,
    token: String,
    /// The end in µs.
    end: u64,
}

/// One node, its state file, its replica, and the leases that clients have.
struct Site {
    bench: Bench,
    /// A replica with the same settings. It has the locks held when it was copied, and no later ones.
    replica: Node,
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
        ttl: u64,
    },
    Extend {
        which: Index,
        ttl: u64,
    },
    Release(Index),
    Delete(u8),
    /// A lock arrives with its slot, or a client restores it.
    Arrive {
        key: u8,
        ttl: u64,
        is_restored: bool,
    },
    Pass(u64),
    /// The file is written in the background: begun, and done.
    Begin,
    Done,
    Disk {
        is_full: bool,
    },
    Crash(Index),
    Promoted {
        was_told: bool,
    },
    MaxTtl(u64),
}

fn ttl() -> impl Strategy<Value = u64> {
    prop_oneof![1..100_u64, 20_000..90_000_u64, 60_000..HOUR, HOUR..20 * HOUR]
}

fn step() -> impl Strategy<Value = Step> {
    let key = || prop_oneof![0..3_u8, any::<u8>()];
    prop_oneof![
        12 => (key(), ttl()).prop_map(|(key, ttl)| Step::Acquire { key, ttl }),
        3 => (any::<Index>(), ttl()).prop_map(|(which, ttl)| Step::Extend { which, ttl }),
        2 => any::<Index>().prop_map(Step::Release),
        1 => key().prop_map(Step::Delete),
        1 => (key(), ttl(), any::<bool>()).prop_map(|(key, ttl, is_restored)| Step::Arrive { key, ttl, is_restored }),
        3 => prop_oneof![0..100_u64, 20_000..90_000_u64, 60_000..HOUR, HOUR..20 * HOUR].prop_map(Step::Pass),
        2 => Just(Step::Begin),
        2 => Just(Step::Done),
        1 => any::<bool>().prop_map(|is_full| Step::Disk { is_full }),
        1 => any::<Index>().prop_map(Step::Crash),
        1 => any::<bool>().prop_map(|was_told| Step::Promoted { was_told }),
        1 => ttl().prop_map(Step::MaxTtl),
    ]
}

fn key(name: &str) -> Key<'_> {
    Key { db: 0, name: name.as_bytes() }
}

impl Site {
    fn new() -> Site {
        let mut bench = Bench::new();
        bench.node.settings.max_ttl = 20 * HOUR;
        let file = [Promise::default()].into();
        let (on_its_way, held, replica) = (None, Vec::new(), Node::default());
        let mut site = Site { bench, replica, file, on_its_way, held, tokens: 0 };
        site.replicate();
        site
    }

    /// A replica copies the data set.
    fn replicate(&mut self) {
        let settings = self.bench.node.settings;
        self.replica = Node { settings, ..Node::default() };
        let Bench { host, now, .. } = &mut self.bench;
        self.replica.follow(host, Instant(*now));
        for held in &self.held {
            let left = held.end.saturating_sub(*now).div_ceil(1000);
            self.replica.heard_of(key(&held.name), Fence(1), Millis(left));
        }
        self.replica.durable.untold();
        self.look();
    }

    /// The replica looks at its settings.
    fn look(&mut self) {
        let time = self.bench.time();
        self.replica.settings.max_ttl = self.bench.node.settings.max_ttl;
        let _ = self.replica.should_promise(time);
    }

    fn take(&mut self, step: Step) -> Result<(), TestCaseError> {
        match step {
            Step::Acquire { key, ttl } => self.acquire(&format!("{key}"), ttl)?,
            Step::Extend { which, ttl } => self.extend(which, ttl),
            Step::Release(which) => self.release(which),
            Step::Delete(name) => self.delete(&format!("{name}")),
            Step::Arrive { key, ttl, is_restored } => {
                self.arrive(&format!("{key}"), ttl, is_restored)?;
            }
            Step::Pass(ms) => {
                self.bench.pass_and_sweep(ms * 1000);
                let now = self.bench.now;
                self.held.retain(|held| held.end > now);
            }
            Step::Begin if self.on_its_way.is_none() => {
                self.on_its_way = Some(self.bench.next_promise());
                self.file.extend(self.on_its_way);
            }
            Step::Done => self.done(),
            Step::Disk { is_full } => self.bench.host.disk_is_full = is_full,
            Step::Crash(which) => {
                let said = *which.get(&self.file);
                self.on_its_way = None;
                self.file = [said].into();
                self.bench.crash(said);
            }
            Step::Promoted { was_told } => self.promote(was_told),
            Step::MaxTtl(ttl) => {
                self.bench.node.settings.max_ttl = ttl;
                self.look();
            }
            Step::Begin => {}
        }
        // A grant that waits for the file also waits for the write under way.
        let written = core::mem::take(&mut self.bench.host.promises);
        if let Some(written) = written.last() {
            (self.file, self.on_its_way) = ([*written].into(), None);
        }
        self.file.append(&mut self.bench.host.failed);
        self.check()
    }

    fn done(&mut self) {
        let Some(promise) = self.on_its_way.take() else { return };
        if !self.bench.host.disk_is_full {
            self.file = [promise].into();
            self.bench.node.promised(promise);
        }
    }

    fn acquire(&mut self, name: &str, ttl: u64) -> Result<(), TestCaseError> {
        let ttl = ttl.min(self.bench.node.settings.max_ttl);
        self.tokens += 1;
        let token = format!("{}", self.tokens);
        let now = self.bench.now;
        match self.bench.acquire_at(key(name), 1, &format!("{token} {ttl}")) {
            Ok(Acquired::Granted(_)) => {
                let other = |held: &&Held| held.name == name && held.end > now;
                let other = self.held.iter().find(other).map(|held| (&held.token, held.end - now));
                prop_assert!(other.is_none(), "{name} is {other:?}'s");
                self.held.push(Held { name: name.into(), token, end: now + ttl * 1000 });
            }
            Ok(_) | Err(Reason::Quarantine { .. } | Reason::NotDurable) => {}
            other => prop_assert!(false, "{other:?}"),
        }
        Ok(())
    }

    fn extend(&mut self, which: Index, ttl: u64) {
        if self.held.is_empty() {
            return;
        }
        let ttl = ttl.min(self.bench.node.settings.max_ttl);
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

    /// DEL: the lease is over, but a forgotten one is not.
    fn delete(&mut self, name: &str) {
        let here = key(name).to_owned();
        let (_, holders) = self.bench.host.holders(&here);
        let Some(holder) = holders.first() else { return };
        let token = holder.grant().token;
        self.held.retain(|held| held.token.as_bytes() != token);
        self.bench.host.take(&here);
        self.bench.removed(key(name), Fence(0));
    }

    /// A lock arrives, unless the file cannot cover it. The replica gets a new copy of the data set.
    fn arrive(&mut self, name: &str, ttl: u64, is_restored: bool) -> Result<(), TestCaseError> {
        let (time, Bench { node, host, .. }) = (self.bench.time(), &mut self.bench);
        let (here, fence, ttl) = (key(name), Fence(node.durable.counter.last().0 + 1), Millis(ttl));
        if host.values.contains_key(&here.to_owned()) {
            return Ok(());
        }
        let needs = node.needs((fence, ttl), is_restored, time);
        prop_assert_eq!(needs.is_err(), is_restored && ttl.0 > node.settings.max_ttl);
        match needs {
            Ok(Some(promise)) if host.promise(&promise) => node.promised(promise),
            Ok(None) => {}
            _ => return Ok(()),
        }
        self.tokens += 1;
        let token = format!("{}", self.tokens);
        let (lease, client) = (Lease::begin(time.now, ttl), ClientId::UNKNOWN);
        let text = token.as_bytes();
        let grant = Grant { token: text, fence, lease, client, ephemeral: false, meta: b"" };
        host.put_one(here, grant);
        node.heard_of(here, fence, ttl);
        self.held.push(Held { name: name.into(), token, end: time.now.0 + ttl.0 * 1000 });
        self.replicate();
        Ok(())
    }

    /// The replica takes over: it received all promises, or none.
    fn promote(&mut self, was_told: bool) {
        let told = self.bench.node.promise(self.bench.time());
        let (now, replica) = (self.bench.now, core::mem::take(&mut self.replica));
        self.bench = Bench::new();
        self.bench.pass(now - self.bench.now);
        self.bench.node = replica;
        if was_told {
            self.bench.inherit(told);
        }
        let time = self.bench.time();
        self.bench.node.promoted(time);
        let promise = self.bench.write();
        (self.file, self.on_its_way) = ([promise].into(), None);
        self.replicate();
    }

    /// Any possible content of the file covers every lease.
    fn check(&self) -> Result<(), TestCaseError> {
        for held in &self.held {
            let left = held.end.saturating_sub(self.bench.now) / 1000;
            for said in &self.file {
                let said = said.longest();
                prop_assert!(said >= Millis(left), "{} has {left} ms, and {said:?}", held.name);
            }
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn whatever_happens_no_lock_is_granted_while_another_client_may_hold_it(
        steps in prop::collection::vec(step(), 1..400),
    ) {
        let mut site = Site::new();
        for step in steps {
            site.take(step)?;
        }
    }
}
