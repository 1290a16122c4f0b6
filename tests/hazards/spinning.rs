//! `SET NX PX` in a loop, with some sleep between two attempts and a time-out: clients are not served in the
//! order of arrival. The client that asks at the right moment has the lock, while the others sleep. A hundred
//! waiters send thousands of requests a second if each sleeps for 10 ms, and a thousand with the 100 ms of
//! redis-py. With dlock they wait in a queue in the server, send nothing, and are served in the order of
//! arrival.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use harness::{Client, Kind, Server, apply, eventually, on_one_server};

use crate::recipe::{Dlock, HURRY, Party, SetNx, Waiting};

const KEY: &str = "stock";
/// No lock ends by itself here.
const TTL: u64 = 60_000;

// --- the order of service -------------------------------------------------------------------------

#[apply(on_one_server)]
fn a_newcomer_overtakes_one_that_sleeps_between_two_attempts(kind: Kind) {
    let server = Server::build(kind).without_module().start();
    let [mut holder, mut early, mut newcomer] = [(); 3].map(|()| SetNx::connect(server.port()));
    assert!(holder.try_lock(KEY, TTL));
    assert!(!early.try_lock(KEY, TTL));
    // The early client sleeps now.
    assert!(holder.unlock(KEY));
    assert!(newcomer.try_lock(KEY, TTL));
    // The early client wakes up.
    assert!(!early.try_lock(KEY, TTL));
}

#[apply(on_one_server)]
fn a_newcomer_does_not_overtake_one_that_waits_in_the_queue(kind: Kind) {
    let server = Server::start(kind);
    let [mut holder, mut newcomer] = [(); 2].map(|()| Dlock::connect(server.port()));
    assert!(holder.try_lock(KEY, TTL));
    let mut early = server.waiter(&format!("DLOCK.ACQUIRE {KEY} early {TTL} WAIT 0"));
    assert!(holder.unlock(KEY));
    assert!(!newcomer.try_lock(KEY, TTL));
    assert!(early.recv().int() > 0);
}

// --- how many requests ---------------------------------------------------------------------------

const CROWD: usize = 30;
/// No client sends a request for this long; clients that poll would ask thirty times each.
const QUIET: Duration = Duration::from_millis(300);

/// The number of calls of a command, as the server counts.
fn calls(server: &Server, command: &str) -> usize {
    let stats = server.info("commandstats");
    let stats = stats.get(&format!("cmdstat_{command}"));
    let calls = stats.and_then(|stats| stats.strip_prefix("calls=")?.split(',').next());
    calls.expect("it was called").parse().expect("a number")
}

#[test]
fn a_crowd_that_polls_asks_again_and_again() {
    let server = Server::build(Kind::Redis82).without_module().start();
    assert!(SetNx::connect(server.port()).try_lock(KEY, TTL));
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..CROWD {
            let mut waiter = SetNx::connect(server.port());
            let ended = &ended;
            scope.spawn(move || {
                while !ended.load(Ordering::Relaxed) {
                    assert!(!waiter.lock_within(KEY, TTL, HURRY));
                }
            });
        }
        eventually("each has asked twenty times", || calls(&server, "set") > 20 * CROWD);
        ended.store(true, Ordering::Relaxed);
    });
}

#[apply(on_one_server)]
fn a_crowd_that_waits_in_the_queue_sends_nothing(kind: Kind) {
    let server = Server::start(kind);
    assert!(Dlock::connect(server.port()).try_lock(KEY, TTL));
    let words = |n: usize| format!("DLOCK.ACQUIRE {KEY} waiter{n} {TTL} WAIT 0");
    let mut crowd = server.crowd(CROWD, words);
    let all = || server.info_number("stats", "total_commands_processed");
    let asked = all();
    thread::sleep(QUIET);
    // This question is the only command since the last one.
    assert_eq!(all() - asked, 1);
    assert_eq!(server.waiters(KEY).len(), CROWD);
    assert!(!crowd.iter_mut().any(Client::has_answer));
}
