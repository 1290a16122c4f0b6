//! Old locks that are no strings, or need more than a string, beside dlock.
//!
//! A lock in a hash (Redisson) and one of dlock at the same key are errors to each other: there are never two
//! holders, but neither waits for the other. A client that waits for a signal (python-redis-lock) does not
//! get one from dlock, and waits out its expiry. There the fleet moves in two steps: first all services take
//! both locks, the old one and then one of dlock at another key; then they leave out the old one.

use std::thread;

use harness::{Kind, Server, apply, eventually, on_one_server, on_two_servers};

use crate::fleet::{Old, Turns, assert_wrong_type};
use crate::library::ms;

/// As Redisson keeps its locks: the field is the holder, the value counts its entries.
const ENTER: &str = "\
    if redis.call('EXISTS', KEYS[1]) == 1 and redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then \
        return redis.call('PTTL', KEYS[1]) \
    end \
    redis.call('HINCRBY', KEYS[1], ARGV[1], 1) \
    redis.call('PEXPIRE', KEYS[1], 60000) \
    return false";

#[apply(on_one_server)]
fn a_lock_kept_in_a_hash_and_one_of_dlock_are_errors_to_each_other(kind: Kind) {
    let server = Server::start(kind);
    let mut old = Old::new(&server, "service:thread-1");
    assert!(old.script(ENTER).is_null(), "it has it");
    for request in [
        "DLOCK.ACQUIRE job alice 60000",
        "DLOCK.ACQUIRE job alice 60000 WAIT 0",
        "DLOCK.RELEASE job service:thread-1",
        "DLOCK.INSPECT job",
    ] {
        assert_wrong_type(&server.run(request));
    }
    assert_eq!(server.run("HGET job service:thread-1").text(), "1");
    server.run("DEL job");

    let fence = server.run("DLOCK.ACQUIRE job alice 60000").int();
    assert_wrong_type(&old.script(ENTER));
    assert_eq!(server.run("DLOCK.CHECK job alice").int(), fence);
    assert_eq!(server.run("PTTL job").int(), -1);
}

/// As python-redis-lock does it: GET to see whether it holds already, `SET NX`, and BLPOP on a list for as
/// long as locks last. The holder pushes to that list when it is done.
#[apply(on_one_server)]
fn a_waiter_for_a_signal_hears_nothing_of_a_release_by_dlock(kind: Kind) {
    let server = Server::start(kind);
    server.run("DLOCK.ACQUIRE lock:job alice 60000");
    assert_wrong_type(&server.run("GET lock:job"));
    server.run("DLOCK.RELEASE lock:job alice");

    server.run("SET lock:job first NX EX 60");
    let mut waits = server.client();
    assert!(waits.run("SET lock:job second NX EX 60").is_null());
    server.block(&mut waits, "BLPOP lock-signal:job 60");
    // The first client has crashed: its lock ends without a signal, and dlock has it next.
    server.run("PEXPIRE lock:job 1");
    eventually("it is free", || server.run("DLOCK.ACQUIRE lock:job alice 60000").is_int());
    assert_eq!(server.run("DLOCK.RELEASE lock:job alice").int(), 1);
    assert_eq!(server.run("EXISTS lock:job").int(), 0);
    assert_eq!(waits.recv_within(ms(200)), None, "it is free, and nobody says so for a minute");
}

#[apply(on_two_servers)]
fn a_service_with_both_locks_loses_no_update_beside_old_or_new_services(kind: Kind) {
    let server = Server::start(kind);
    let both = |turns: &Turns| {
        let mut old = Old::new(&server, "both:thread-1");
        turns.go_on("both", |turn| {
            // Always in this order.
            enter(&mut old);
            acquire_and_release(&mut old, "both", turn);
            leave(&mut old);
        });
    };
    let first = Turns::new(&server, 20);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut old = Old::new(&server, "old:thread-1");
            first.go_on("old", |turn| {
                enter(&mut old);
                turn();
                leave(&mut old);
            });
        });
        scope.spawn(|| both(&first));
    });
    first.assert_none_was_lost(&server);

    let second = Turns::new(&server, 20);
    thread::scope(|scope| {
        scope.spawn(|| both(&second));
        scope.spawn(|| {
            let mut new = Old::new(&server, "new");
            second.go_on("new", |turn| acquire_and_release(&mut new, "new", turn));
        });
    });
    second.assert_none_was_lost(&server);
}

fn enter(service: &mut Old) {
    eventually("it has its turn", || service.script(ENTER).is_null());
}

fn leave(service: &mut Old) {
    let left = "return redis.call('HDEL', KEYS[1], ARGV[1])";
    assert_eq!(service.script(left).int(), 1);
}

/// Takes a lock of dlock for a turn, at another key than the old one.
fn acquire_and_release(service: &mut Old, token: &str, turn: &mut dyn FnMut()) {
    let acquired = service.client.run(&format!("DLOCK.ACQUIRE job:dlock {token} 60000 WAIT 0"));
    assert!(acquired.is_int(), "{acquired:?}");
    turn();
    assert_eq!(service.client.run(&format!("DLOCK.RELEASE job:dlock {token}")).int(), 1);
}
