//! Services that still use `SET NX PX` and the script that compares and deletes, and services that use dlock
//! already, on the same keys, while a fleet moves over.
//!
//! They exclude each other, on one node and on several: dlock treats a string at the key as a lock, and `SET
//! NX` finds a key where dlock has one. An old service's request about a lock that it does not have fails
//! with WRONGTYPE and changes nothing. The limits: a plain DEL deletes dlock's lock, and an EXPIRE ends it
//! early, so code with these has to go first. A crash loses the strings, so `dlock.quarantine` has to be as
//! long as they last.

use std::thread;

use harness::quarantine::CRASHED;
use harness::{Kind, Quorum, Server, apply, eventually, on_one_server, on_two_servers};

use crate::fleet::{Old, Turns, assert_wrong_type};
use crate::library::{NODE_TIMEOUT, assert_held, healthy_program, ms, run, take};
use crate::recipe::COMPARE_AND_DELETE;
use crate::redlock::Redlock;

/// Renews the lease if the key still has the caller's value.
const RENEW: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then \
    return redis.call('PEXPIRE', KEYS[1], 60000) else return 0 end";

#[apply(on_one_server)]
fn a_lock_of_dlock_keeps_old_services_out(kind: Kind) {
    let server = Server::start(kind);
    for mode in ["", "SHARED", "LIMIT 2"] {
        let fence = server.run(&format!("DLOCK.ACQUIRE job alice 60000 {mode}")).int();
        let mut old = Old::new(&server, "old");
        assert!(!old.tries());
        assert_eq!(server.run("SETNX job old").int(), 0);
        assert_eq!(server.run("EXISTS job").int(), 1, "for those who look first");
        assert_eq!(server.run("DLOCK.CHECK job alice").int(), fence);
        server.run("DLOCK.RELEASE job alice");
        assert!(old.tries());
        assert_eq!(old.script(COMPARE_AND_DELETE).int(), 1);
    }
}

/// An old service that releases and renews its expired lock.
#[apply(on_two_servers)]
fn what_an_old_service_does_with_a_lock_of_dlock_is_an_error_and_changes_nothing(kind: Kind) {
    let server = Server::start(kind);
    let fence = server.run("DLOCK.ACQUIRE job alice 60000").int();
    let mut bob = server.waiter("DLOCK.ACQUIRE job bob 60000 WAIT 0");
    let mut old = Old::new(&server, "old");
    // The holder's token makes no difference.
    let mut thief = Old::new(&server, "alice");
    for service in [&mut old, &mut thief] {
        for script in [COMPARE_AND_DELETE, RENEW] {
            assert_wrong_type(&service.script(script));
        }
        assert_wrong_type(&service.client.run("GET job"));
        assert_wrong_type(&service.client.run("GETDEL job"));
        assert_wrong_type(&service.client.run("SET job mine NX GET PX 60000"));
        if kind == Kind::Valkey91 {
            assert_wrong_type(&service.client.run("DELIFEQ job alice"));
        }
    }
    assert_eq!(server.run("DLOCK.CHECK job alice").int(), fence);
    assert_eq!(server.run("PTTL job").int(), -1);
    assert!(!bob.has_answer());
    server.run("DLOCK.RELEASE job alice");
    assert!(bob.recv().int() > fence);
}

#[apply(on_one_server)]
fn old_and_new_services_lose_no_update(kind: Kind) {
    let server = Server::start(kind);
    let turns = Turns::new(&server, 30);
    thread::scope(|scope| {
        for number in 0..3 {
            scope.spawn({
                let (server, turns) = (&server, &turns);
                move || {
                    let mut old = Old::new(server, &format!("old{number}"));
                    turns.go_on("old", |turn| {
                        eventually("an old service has its turn", || old.tries());
                        turn();
                        assert_eq!(old.script(COMPARE_AND_DELETE).int(), 1);
                    });
                }
            });
            scope.spawn({
                let (server, turns) = (&server, &turns);
                move || {
                    let mut new = server.client();
                    turns.go_on("new", |turn| {
                        let acquire = format!("DLOCK.ACQUIRE job new{number} 60000 WAIT 0");
                        assert!(new.run(&acquire).is_int());
                        turn();
                        assert_eq!(new.run(&format!("DLOCK.RELEASE job new{number}")).int(), 1);
                    });
                }
            });
        }
    });
    turns.assert_none_was_lost(&server);
    assert_eq!(server.run("EXISTS job").int(), 0);
}

/// The same turns with no lock at all: only the locks keep these services apart above.
#[test]
fn without_a_lock_updates_are_lost() {
    let server = Server::build(Kind::Redis82).without_module().start();
    let turns = Turns::new(&server, 30);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| turns.go_on("old", |turn| turn()));
            scope.spawn(|| turns.go_on("new", |turn| turn()));
        }
    });
    turns.assert_some_were_lost(&server);
}

// --- on several nodes --------------------------------------------------------------------------

#[test]
fn a_redlock_and_a_guard_keep_each_other_out() {
    let quorum = Quorum::start(3);
    run(async {
        let mut old = Redlock::direct(&quorum, NODE_TIMEOUT);
        let new = healthy_program(&quorum).await;
        let held = old.lock("job", ms(60_000)).expect("it is free");
        assert_held(new.lock("job").try_acquire().await);
        assert_eq!(old.unlock(&held), 3, "the attempt took nothing away");

        let guard = take(&new, "job", ms(60_000)).await;
        eventually("every node has granted it", || quorum.held("job") == 3);
        // The old client fails, and releases what it did not get, as such clients do: it gets WRONGTYPE.
        assert!(old.lock("job", ms(60_000)).is_none());
        assert_eq!(old.unlock(&held), 0);
        assert_eq!(quorum.held_by("job", guard.token().as_str()), 3);
        guard.extend(ms(90_000)).await.expect("nothing happened to it");
        guard.release().await.expect("it is held");
        assert!(old.lock("job", ms(60_000)).is_some());
    });
}

// --- servers that crash, and the way back ------------------------------------------------------

/// Only the operator can state the expiry of strings lost in a crash.
#[apply(on_one_server)]
fn a_least_quarantine_waits_for_the_old_locks_that_a_crash_took_along(kind: Kind) {
    let crashes = |server: &mut Server| {
        assert!(Old::new(server, "old").tries());
        server.kill();
        server.start_again();
    };
    let mut server = Server::start(kind);
    crashes(&mut server);
    assert!(server.run("DLOCK.ACQUIRE job alice 60000").is_int(), "the old one still works");

    let mut server = Server::build(kind).config("dlock.quarantine 60000").start();
    crashes(&mut server);
    assert_eq!(server.run("DLOCK.ACQUIRE job alice 60000").code(), "QUARANTINE");
    assert!(server.assert_in_quarantine(CRASHED) > 30_000);
}

/// An operator goes back to the old services, and removes the module.
#[apply(on_two_servers)]
fn a_server_starts_without_the_module_when_no_lock_is_left(kind: Kind) {
    let mut server = Server::build(kind).append_only().start();
    server.run("SET plain text");
    server.run("DLOCK.ACQUIRE job alice 60000");
    server.leave_module_out();
    server.stop();
    let log = server.try_start_again().expect_err("what it kept is not only strings");
    assert!(log.contains("DLOCK.APPLY"), "{log}");

    server.take_module_back();
    server.start_again();
    assert_eq!(server.run("DLOCK.RELEASE job alice").int(), 1);
    assert_eq!(server.run("SCAN 0 COUNT 1000 TYPE dlock-key").items()[1].items().len(), 0);
    // The log still contains the lock.
    server.run("BGREWRITEAOF");
    server.until_log_is_rewritten();
    server.leave_module_out();
    server.restart();
    assert_eq!(server.run("GET plain").text(), "text");
    assert!(Old::new(&server, "old").tries());
}
