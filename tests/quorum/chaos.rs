//! Every fault of nodes that fail over, at random, for minutes: only with `make soak`. Programs contend over
//! networks of their own, with TLS or without. Servers and Sentinels crash or pause. Links of programs, links
//! among servers, and replication are cut, for a moment or until everything is sent anew. Servers are
//! isolated. Slots move in either way, and servers crash while slots move.
//!
//! By the programs' own records no two hold together, and fences grow. No wait is longer than the faults and
//! the quarantine after them explain.
//!
//! A server that pauses, and goes on when another one has taken over, may grant requests from before. So
//! quarantines last longer here than a client takes to look elsewhere.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use dlock_client::Client;
use harness::contender::{Contender, KEYS, TTL, Wish, change_networks};
use harness::library::{connect_hasty, run_for};
use harness::{Grant, History, Proxy, Server, eventually, seed, soak};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::task::JoinSet;

use crate::coordinator::ms;

/// Programs that want a lock soon or not at all, and programs that wait without limit.
const HASTY: usize = 8;
const PATIENT: usize = 4;
/// As long as a lease, and longer than a client takes to look elsewhere.
const QUARANTINE: Duration = ms(3_000);
/// A wait takes this much besides: each earlier waiter holds the lock for less than a second.
const MOMENT: Duration = ms(10_000);
/// A run without grants shows nothing.
const LEAST: usize = 10;
/// The length of a run, if DLOCK_SOAK_CHAOS does not say it.
const SHORT: Duration = ms(10_000);

/// Runs the programs. `happen` does one thing, and returns when all is well again.
pub fn run_chaos(url: &str, servers: &[u16], mut happen: impl FnMut(&mut StdRng, &Links)) {
    let mut rng = seed::rng();
    let seen = Arc::new(Seen::default());
    // The last event may take long.
    let length = soak::chaos().unwrap_or(SHORT);
    run_for(length, async {
        let ended = Arc::new(AtomicBool::new(false));
        let (mut people, mut networks) = (JoinSet::new(), Vec::new());
        for number in 0..HASTY + PATIENT {
            let own: Vec<Proxy> = servers.iter().map(|port| Proxy::start(*port)).collect();
            let client = connect_hasty(|| vec![mapped(url, servers, &own)], ms(500)).await;
            networks.push(own);
            let (ended, rng) = (Arc::clone(&ended), StdRng::seed_from_u64(rng.random()));
            if number < HASTY {
                let history = Arc::clone(&seen.history);
                let name = format!("program {number}");
                let contender = Contender { name, client, history, ended, rng, wish: Wish::Write };
                people.spawn(contender.contend());
            } else {
                people.spawn(wait_patiently(client, Arc::clone(&seen), ended, rng));
            }
        }
        let links = Links(networks);
        let until = Instant::now() + length;
        while Instant::now() < until {
            let (before, begun) = (seen.history.len(), Instant::now());
            happen(&mut rng, &links);
            links.pass();
            seen.troubles.lock().expect("nobody panics").push((begun, Instant::now() + QUARANTINE));
            eventually("locks are granted again", || seen.history.len() > before + LEAST);
        }
        ended.store(true, Ordering::Relaxed);
        people.join_all().await;
    });
    seen.judge(url.split_once(':').map_or(url, |(scheme, _)| scheme));
}

/// Prints an event.
pub fn say(what: &str) {
    eprintln!("{what}");
}

/// Prepares a server that has just started.
pub fn prepare(server: &Server) {
    let answer = server.run(&format!("CONFIG SET dlock.quarantine {}", QUARANTINE.as_millis()));
    assert_eq!(answer.text(), "OK");
}

/// The networks of the programs, each with a link to each server.
pub struct Links(Vec<Vec<Proxy>>);

impl Links {
    /// Lets the links fail for a while.
    pub fn fail(&self, rng: &mut StdRng) {
        for _ in 0..rng.random_range(5..60) {
            change_networks(&self.0, rng);
            thread::sleep(ms(rng.random_range(5..60)));
        }
    }

    fn pass(&self) {
        self.0.iter().flatten().for_each(Proxy::pass);
    }
}

/// The node as a program finds it: over its own links.
fn mapped(url: &str, servers: &[u16], own: &[Proxy]) -> String {
    let links = servers.iter().zip(own);
    let map = |(to, link): (&u16, &Proxy)| format!("map=127.0.0.1:{to}=127.0.0.1:{}", link.port());
    let begins = if url.contains('?') { '&' } else { '?' };
    format!("{url}{begins}{}", links.map(map).collect::<Vec<_>>().join("&"))
}

/// The observations of the programs, and of the run.
#[derive(Default)]
struct Seen {
    history: Arc<History>,
    /// The waits of a patient program.
    waits: Mutex<Vec<(Instant, Instant)>>,
    /// The times of trouble.
    troubles: Mutex<Vec<(Instant, Instant)>>,
}

impl Seen {
    fn judge(&self, about: &str) {
        self.history.assert_kept(about);
        let (waits, troubles) = (self.waits.lock(), self.troubles.lock());
        let (waits, troubles) = (waits.expect("nobody panics"), troubles.expect("nobody panics"));
        let longest = waits.iter().map(|(from, to)| *to - *from).max().unwrap_or_default();
        let unexplained = waits.iter().map(|wait| unexplained(*wait, &troubles)).max();
        let unexplained = unexplained.unwrap_or_default();
        eprintln!(
            "{} grants, {} events, {} patient waits, of which the longest took {longest:.1?}; {unexplained:.1?} \
             of one are not explained by what happened",
            self.history.len(),
            troubles.len(),
            waits.len(),
        );
        assert!(unexplained < MOMENT, "somebody waited {unexplained:?} while all was well");
    }
}

/// The part of a wait outside of troubles. Troubles are in order.
fn unexplained((from, to): (Instant, Instant), troubles: &[(Instant, Instant)]) -> Duration {
    let (mut at, mut sum) = (from, Duration::ZERO);
    for (begun, over) in troubles {
        sum += begun.min(&to).saturating_duration_since(at);
        at = at.max(*over);
    }
    sum + to.saturating_duration_since(at)
}

/// A program that waits without limit.
async fn wait_patiently(client: Client, seen: Arc<Seen>, ended: Arc<AtomicBool>, mut rng: StdRng) {
    while !ended.load(Ordering::Relaxed) {
        let key = KEYS[rng.random_range(0..KEYS.len())];
        let asked = Instant::now();
        let guard = client
            .lock(key)
            .ttl(TTL)
            .acquire()
            .await
            .unwrap_or_else(|error| panic!("it waits through outages, and not: {error}"));
        seen.waits.lock().expect("nobody panics").push((asked, Instant::now()));
        let token = guard.token().to_string();
        let mut grant = Grant::new(key, &token, guard.fence() as i64, asked, Duration::ZERO);
        let now = Instant::now();
        if guard.is_valid() {
            grant.extended(now, Duration::ZERO);
        }
        let released = guard.release().await;
        grant.released(now, released.is_ok().then(Instant::now));
        seen.history.add(grant);
        tokio::time::sleep(ms(rng.random_range(0..100))).await;
    }
}

#[test]
fn what_lies_in_no_trouble_is_not_explained() {
    let begun = Instant::now();
    let at = |seconds| begun + Duration::from_secs(seconds);
    let troubles = [(at(10), at(20)), (at(15), at(17)), (at(30), at(40))];
    for (from, to, left) in [(0, 5, 5), (0, 15, 10), (12, 18, 0), (12, 25, 5), (5, 50, 25)] {
        let left = Duration::from_secs(left);
        assert_eq!(unexplained((at(from), at(to)), &troubles), left, "{from} to {to}");
    }
}
