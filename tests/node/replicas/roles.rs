//! Primaries that become replicas and replicas that become primaries, with leases that run out and
//! clients that wait.

use std::time::{Duration, Instant};

use harness::{Builder, Client, Kind, Server, apply, eventually, on_every_server};

fn until_role(server: &Server, role: &str) {
    eventually("the role changes", || server.info("replication")["role"] == role);
}

/// A former waiter gets UNBLOCKED, or is disconnected.
#[track_caller]
fn assert_sent_away(waiter: &mut Client) {
    match waiter.try_recv() {
        Ok(answer) => assert_eq!(answer.code(), "UNBLOCKED"),
        Err(_) => assert!(waiter.is_closed_by_server()),
    }
}

/// Waits until the server has written nothing to its replicas for several rounds of its chores.
fn until_silent(server: &Server) {
    let written = || server.info_number("replication", "master_repl_offset");
    let mut last = (written(), Instant::now());
    eventually("nothing is written any more", || {
        let now = written();
        if now != last.0 {
            last = (now, Instant::now());
        }
        last.1.elapsed() > Duration::from_millis(500)
    });
}

/// Three servers change their roles in turn without any writes: without the module each would go on from
/// where it is. A renewed state file would be told to replicas at any time, so there is none.
#[apply(on_every_server)]
fn a_planned_change_of_roles_needs_no_full_resynchronisation(kind: Kind) {
    let silent = |server: Builder| {
        server.config("repl-ping-replica-period 3600").config("dlock.state-file \"\"").start()
    };
    let servers: Vec<Server> = (0..3).map(|_| silent(Server::build(kind))).collect();
    let follow = |leader: usize| {
        for replica in (0..3).filter(|one| *one != leader) {
            let port = servers[leader].port();
            servers[replica].run(&format!("REPLICAOF 127.0.0.1 {port}"));
        }
        for replica in (0..3).filter(|one| *one != leader) {
            servers[leader].until_streaming_to(&servers[replica]);
        }
        // A new leader sends its promise, and the last was sent something by the above.
        until_silent(&servers[leader]);
        for replica in (0..3).filter(|one| *one != leader) {
            servers[leader].until_followed_by(&servers[replica]);
        }
    };
    let full = || -> i64 { servers.iter().map(|one| one.info_number("stats", "sync_full")).sum() };
    follow(0);
    let before = full();
    for leader in [1, 2, 0] {
        assert_eq!(servers[leader].run("REPLICAOF NO ONE").text(), "OK");
        follow(leader);
        assert_eq!(full(), before, "server {leader} leads now");
    }
}

#[apply(on_every_server)]
fn a_waiter_at_a_server_that_becomes_a_replica_is_sent_away(kind: Kind) {
    let next = Server::start(kind);
    next.run("DLOCK.ACQUIRE other zed 60000");
    let server = Server::start(kind);
    let mut ephemeral = server.client();
    ephemeral.run("DLOCK.ACQUIRE job alice 60000 EPHEMERAL");
    server.run("DLOCK.ACQUIRE short alice 60000");
    server.run("SET foreign text PX 60000");
    let mut waiters = [
        server.waiter("DLOCK.ACQUIRE job bob 60000 WAIT 0"),
        server.waiter("DLOCK.ACQUIRE job carol 60000 WAIT 60000 SHARED"),
        server.waiter("DLOCK.ACQUIRE short bob 60000 WAIT 0 EPHEMERAL"),
        server.waiter("DLOCK.ACQUIRE foreign bob 60000 WAIT 0"),
    ];
    server.run(&format!("REPLICAOF 127.0.0.1 {}", next.port()));
    waiters.iter_mut().for_each(assert_sent_away);
    ephemeral.close();
    next.assert_agrees_with(&server);
    assert_eq!(server.info_number("dlock", "dlock_waiters"), 0);
    assert_eq!(server.info_number("dlock", "dlock_leases"), 1);
    assert_eq!(server.run("DLOCK.ACQUIRE job bob 1000 WAIT 0").code(), "READONLY");

    // And back: no state is left of its time as a replica.
    server.run("CONFIG SET dlock.quarantine off");
    server.run("REPLICAOF NO ONE");
    assert_eq!(server.run("DLOCK.RELEASE other zed").int(), 1);
    assert!(server.run("DLOCK.ACQUIRE short dan 60000").int() > 0);
    let mut waiter = server.waiter("DLOCK.ACQUIRE short eve 60000 WAIT 0");
    server.run("DLOCK.RELEASE short dan");
    assert!(waiter.recv().int() > 0);
}

#[apply(on_every_server)]
fn a_lease_that_was_over_at_the_replica_ends_when_it_is_promoted(kind: Kind) {
    let (primary, replica) = Server::pair(kind);
    // In this pause the primary ends no lease.
    let words = [
        "DLOCK.ACQUIRE job alice 300",
        "DLOCK.ACQUIRE pool alice 300 SHARED",
        "CLIENT PAUSE 600000 WRITE",
    ];
    primary.client().pipeline(words.map(str::to_owned));
    primary.until_followed_by(&replica);
    eventually("the lease is over", || replica.run("DLOCK.CHECK pool alice").is_null());
    assert_eq!(replica.run("EXISTS job pool").int(), 2);
    replica.run("REPLICAOF NO ONE");
    eventually("the leases end", || replica.run("EXISTS job pool").int() == 0);
    assert_eq!(replica.node("leases").int(), 0);
}

/// While a failover waits for its replica, writes are paused, and leases run out meanwhile.
#[apply(on_every_server)]
fn a_failover_that_waits_and_is_given_up_loses_nothing(kind: Kind) {
    let (primary, replica) = Server::pair(kind);
    let mut ephemeral = primary.client();
    ephemeral.run("DLOCK.ACQUIRE eph alice 60000 EPHEMERAL");
    primary.run("DLOCK.ACQUIRE job alice 60000");
    let mut eph = primary.waiter("DLOCK.ACQUIRE eph bob 60000 WAIT 0");
    primary.until_followed_by(&replica);
    replica.pause();
    // Now the replica lacks something, so the failover has to wait for it.
    primary.run("SET something new");
    let [_, mut short, mut brief, mut operator] = primary.in_one_turn([
        "DLOCK.ACQUIRE short alice 300",
        "DLOCK.ACQUIRE short bob 60000 WAIT 0",
        "DLOCK.ACQUIRE job bob 60000 WAIT 300",
        "FAILOVER",
    ]);
    assert_eq!(operator.recv().text(), "OK");
    let state = primary.info("replication")["master_failover_state"].clone();
    assert_eq!(state, "waiting-for-sync");
    ephemeral.close();
    assert!(brief.recv().is_null());
    eventually("the lease is over", || primary.run("DLOCK.CHECK short alice").is_null());
    for waiter in [&mut eph, &mut short] {
        assert!(!waiter.has_answer());
    }

    assert_eq!(primary.run("FAILOVER ABORT").text(), "OK");
    assert!(eph.recv().int() > 0);
    assert!(short.recv().int() > 0);
    replica.resume();
    primary.assert_agrees_with(&replica);
    assert_eq!(primary.node("leases").int(), 3);
}

#[apply(on_every_server)]
fn a_failover_after_a_wait_ends_what_is_over_at_the_new_primary(kind: Kind) {
    let (primary, replica) = Server::pair(kind);
    replica.pause();
    primary.run("SET something new");
    let [_, mut waiter, _] = primary.in_one_turn([
        "DLOCK.ACQUIRE short alice 300",
        "DLOCK.ACQUIRE short bob 60000 WAIT 0",
        "FAILOVER",
    ]);
    eventually("the lease is over", || primary.run("DLOCK.CHECK short alice").is_null());
    replica.resume();
    assert_sent_away(&mut waiter);
    until_role(&replica, "master");
    assert!(replica.client().run("DLOCK.ACQUIRE short bob 60000 WAIT 0").int() > 0);
    until_role(&primary, "slave");
    replica.assert_agrees_with(&primary);
    assert_eq!(primary.holders("short"), ["bob"]);
}
