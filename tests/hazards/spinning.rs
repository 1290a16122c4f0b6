//! `SET NX PX` in a loop, with some sleep between two attempts and a time-out: clients are not served in the
//! order of arrival. The client that asks at the right moment has the lock, while the others sleep. A hundred
//! waiters send thousands of requests a second if each sleeps for 10 ms, and a thousand with the 100 ms of
//! redis-py. With dlock they wait in a queue in the server, send nothing, and are served in the order of
//! arrival.

use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use harness::wait::PATIENCE;
use harness::{Client, Kind, Server, apply, eventually, on_one_server, on_two_servers};

use crate::recipe::{Dlock, HURRY, Party, SetNx, USUAL, Waiting};

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

/// This many clients come, one after the other, while the lock is held.
const WAITERS: usize = 8;
/// The time between two arrivals: clients that poll are awake at different times.
const APART: Duration = Duration::from_millis(3);
/// Each of them works this long.
const WORK: Duration = Duration::from_millis(5);
const ROUNDS: usize = 5;

/// The order of service of clients that came in the order of their numbers.
fn order_of_service<P: Waiting>(server: &Server) -> Vec<usize> {
    let served = Mutex::new(Vec::new());
    let mut holder = P::connect(server.port());
    assert!(holder.try_lock(KEY, TTL));
    thread::scope(|scope| {
        for number in 0..WAITERS {
            let mut waiter = P::connect(server.port());
            let id = waiter.id();
            let served = &served;
            scope.spawn(move || {
                assert!(waiter.lock_within(KEY, TTL, PATIENCE));
                served.lock().expect("nobody panicked").push(number);
                thread::sleep(WORK);
                assert!(waiter.unlock(KEY));
            });
            eventually("it has asked", || has_asked(server, id));
            thread::sleep(APART);
        }
        assert!(holder.unlock(KEY));
    });
    served.into_inner().expect("nobody panicked")
}

/// True if a client, which has sent nothing but CLIENT ID before, has asked for the lock.
fn has_asked(server: &Server, id: i64) -> bool {
    !server.run(&format!("CLIENT LIST ID {id}")).text().contains(" cmd=client")
}

/// The number of pairs that were served in the wrong order.
fn overtakings(order: &[usize]) -> usize {
    let behind = |place: usize| order[place + 1..].iter().filter(move |&&n| n < order[place]);
    (0..order.len()).map(|place| behind(place).count()).sum()
}

#[test]
fn polling_clients_are_not_served_in_the_order_of_arrival() {
    let server = Server::build(Kind::Redis82).without_module().start();
    let orders: Vec<Vec<usize>> = (0..ROUNDS).map(|_| order_of_service::<SetNx>(&server)).collect();
    let wrong: usize = orders.iter().map(|order| overtakings(order)).sum();
    println!("{wrong} of {} pairs: {orders:?}", ROUNDS * WAITERS * (WAITERS - 1) / 2);
    assert!(wrong > 0);
}

#[apply(on_two_servers)]
fn waiters_in_the_queue_are_served_in_the_order_of_arrival(kind: Kind) {
    let server = Server::start(kind);
    for _ in 0..ROUNDS {
        let order = order_of_service::<Dlock>(&server);
        assert_eq!(overtakings(&order), 0, "{order:?}");
    }
}

// --- how many requests ---------------------------------------------------------------------------

const CROWD: usize = 100;
/// Clients give up after this long.
const TIME_OUT: Duration = Duration::from_secs(1);
/// No client sends a request for this long; clients that poll would ask thirty times each.
const QUIET: Duration = Duration::from_millis(300);

/// The number of calls of a command, as the server counts.
fn calls(server: &Server, command: &str) -> i64 {
    let stats = server.info("commandstats");
    let stats = stats.get(&format!("cmdstat_{command}"));
    let calls = stats.and_then(|stats| stats.strip_prefix("calls=")?.split(',').next());
    calls.expect("it was called").parse().expect("a number")
}

#[test]
fn a_crowd_that_polls_asks_again_and_again() {
    let server = Server::build(Kind::Redis82).without_module().start();
    assert!(SetNx::connect(server.port()).try_lock(KEY, TTL));
    for pause in [HURRY, USUAL] {
        let requests = requests_of_a_crowd(&server, pause);
        println!("{requests} requests of {CROWD} clients in {TIME_OUT:?}, one every {pause:?}");
        assert!(requests >= 2 * CROWD as i64, "{requests}, one every {pause:?}");
    }
}

fn requests_of_a_crowd(server: &Server, pause: Duration) -> i64 {
    let before = calls(server, "set");
    thread::scope(|scope| {
        for _ in 0..CROWD {
            let mut waiter = SetNx::connect(server.port()).pausing(pause);
            scope.spawn(move || assert!(!waiter.lock_within(KEY, TTL, TIME_OUT)));
        }
    });
    calls(server, "set") - before
}

#[apply(on_two_servers)]
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
