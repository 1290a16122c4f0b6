//! Replicas: they have what the primary decided, decide nothing themselves, and pass it on.

use harness::{Kind, Server, Value, apply, eventually, on_every_server, on_two_servers, seed};

use crate::load::workload::Workload;

#[apply(on_every_server)]
fn a_replica_has_every_effect_as_it_was_decided(kind: Kind) {
    let (primary, replica) = &Server::pair(kind);
    let first = primary.run("DLOCK.ACQUIRE one alice 60000 META m EPHEMERAL").int();
    let ahead = first + 300_000_000;
    for words in [
        "DLOCK.ACQUIRE one alice 70000 META n",
        "DLOCK.ACQUIRE shared alice 60000 SHARED",
        "DLOCK.ACQUIRE shared bob 60000 SHARED META m",
        "DLOCK.ACQUIRE limit alice 60000 LIMIT 7",
        "DLOCK.EXTEND one alice 50000",
        &format!("DLOCK.EXTEND limit alice 50000 FENCE {ahead}"),
        "DLOCK.EXTEND limit alice 1000",
        &format!("DLOCK.EXTEND limit alice 1000 FENCE {}", ahead + 1),
        "DLOCK.EXTEND limit alice 80000",
        "DLOCK.RELEASE shared alice",
        "DLOCK.ACQUIRE broken alice 60000",
        "DLOCK.BREAK broken",
        "DLOCK.RELEASE one alice",
        "DLOCK.ACQUIRE one bob 60000 SHARED",
        "DLOCK.ACQUIRE short alice 20",
    ] {
        assert!(primary.run(words).int() > 0, "{words}");
        primary.assert_agrees_with(replica);
    }
    eventually("a lease ends", || primary.run("EXISTS short").int() == 0);
    primary.assert_agrees_with(replica);

    let mut waiter = primary.waiter("DLOCK.ACQUIRE one carol 60000 WAIT 0 EPHEMERAL");
    primary.assert_agrees_with(replica);
    primary.run("DLOCK.RELEASE one bob");
    assert!(waiter.recv().int() > 0);
    primary.assert_agrees_with(replica);
    assert_eq!(replica.holders("one"), ["carol"]);
    waiter.close();
    eventually("an ephemeral lease ends", || primary.run("EXISTS one").int() == 0);
    primary.assert_agrees_with(replica);
    assert_eq!(replica.node("fence").int(), primary.node("fence").int());
}

#[apply(on_two_servers)]
fn a_replica_answers_check_and_inspect_and_refuses_the_rest(kind: Kind) {
    let (primary, replica) = &Server::pair(kind);
    let fence = primary.run("DLOCK.ACQUIRE job alice 60000 META m").int();
    primary.until_followed_by(replica);
    assert_eq!(replica.run("DLOCK.CHECK job alice").int(), fence);
    assert!(replica.run("DLOCK.CHECK job bob").is_null());
    assert_eq!(replica.pictures(), primary.pictures());
    assert_eq!(replica.node("role").text(), "replica");
    for words in [
        "DLOCK.ACQUIRE job bob 1000",
        "DLOCK.ACQUIRE free bob 1000 WAIT 0",
        "DLOCK.RELEASE job alice",
        "DLOCK.EXTEND job alice 1000",
        "DLOCK.BREAK job",
    ] {
        assert_eq!(replica.run(words).code(), "READONLY", "{words}");
    }
    replica.run("CONFIG SET replica-read-only no");
    for words in ["DLOCK.ACQUIRE job bob 1000", "DLOCK.RELEASE job alice", "DLOCK.BREAK job"] {
        assert_eq!(replica.run(words).code(), "READONLY", "{words}");
    }
    primary.assert_agrees_with(replica);
    assert_eq!(replica.node("waiters").int(), 0);
}

#[apply(on_every_server)]
fn a_replica_ends_no_lease_itself(kind: Kind) {
    let (primary, replica) = &Server::pair(kind);
    // In this pause the primary ends no lease.
    let words = [
        "DLOCK.ACQUIRE job alice 500",
        "DLOCK.ACQUIRE pool alice 500 LIMIT 2",
        "DLOCK.ACQUIRE pool bob 60000 LIMIT 2",
        "CLIENT PAUSE 600000 WRITE",
    ];
    primary.client().pipeline(words.map(str::to_owned));
    primary.until_followed_by(replica);
    let digest = replica.digest();
    eventually("the lease is over", || replica.run("DLOCK.CHECK job alice").is_null());
    eventually("the permit is over", || replica.run("DLOCK.CHECK pool alice").is_null());
    assert!(replica.run("DLOCK.INSPECT job").is_null());
    assert_eq!(replica.holders("pool"), ["bob"]);
    // As many turns as would have ended it on a primary.
    let turns = || replica.info_number("server", "lru_clock");
    let before = turns();
    eventually("a second passes", || turns() > before + 1);
    assert_eq!(replica.run("EXISTS job").int(), 1);
    assert_eq!(replica.digest(), digest);
    primary.run("CLIENT UNPAUSE");
    eventually("the primary ends it", || primary.run("EXISTS job").int() == 0);
    primary.assert_agrees_with(replica);
    assert_eq!(replica.run("EXISTS job").int(), 0);
}

#[apply(on_two_servers)]
fn a_random_life_is_the_same_on_replicas_and_in_their_files(kind: Kind) {
    let mut rng = seed::rng();
    let primary = Server::build(kind).append_only().start();
    let mut replica = Server::build(kind).config("appendonly yes").replica_of(&primary).start();
    let chained = Server::build(kind).replica_of(&replica).start();
    primary.until_streaming_to(&replica);
    replica.until_streaming_to(&chained);
    let mut workload = Workload::new(&primary);
    for _ in 0..4 {
        workload.run(&mut rng, 400);
        workload.settle();
        primary.assert_agrees_with(&replica);
        replica.assert_agrees_with(&chained);
        for server in [&primary, &replica, &chained] {
            assert_counted(server);
        }
    }
    drop(workload);
    let pictures = primary.pictures();

    // The replica's own log.
    let digest = replica.digest();
    primary.pause();
    replica.restart();
    assert_eq!(replica.digest(), digest);
    primary.resume();
    primary.assert_agrees_with(&replica);
    assert!(pictures.len() < 20);
}

#[apply(on_two_servers)]
fn a_random_life_is_the_same_after_a_crash(kind: Kind) {
    let mut rng = seed::rng();
    // With a quarantine nothing would happen to locks after its restart.
    let mut primary = Server::build(kind).append_only().config("dlock.quarantine off").start();
    for rewrite in [false, true, true] {
        let mut workload = Workload::new(&primary);
        workload.run(&mut rng, 200);
        if rewrite {
            primary.run("BGREWRITEAOF");
        }
        workload.run(&mut rng, 200);
        workload.settle();
        drop(workload);
        // Ephemeral leases of the workload's clients end now.
        eventually("connections have closed", || {
            primary.info_number("clients", "connected_clients") == 1
        });
        primary.run("DLOCK.ACQUIRE clock any 50");
        eventually("what is over has ended", || primary.run("EXISTS clock").int() == 0);
        primary.until_log_is_rewritten();
        eventually("no string expires in the next moment", || {
            let keys = primary.run("KEYS *");
            let left = |key: &Value| primary.run(&format!("PTTL {}", key.text())).int();
            keys.items().iter().all(|key| !(0..3000).contains(&left(key)))
        });
        let before = (primary.digest(), primary.pictures());
        primary.kill();
        primary.start_again();
        assert_eq!((primary.digest(), primary.pictures()), before);
        primary.run(if rewrite { "CONFIG SET aof-use-rdb-preamble no" } else { "PING" });
    }
}

#[apply(on_two_servers)]
fn a_replica_that_comes_late_gets_all_and_what_follows(kind: Kind) {
    for diskless in ["yes", "no"] {
        let primary = Server::build(kind).config(&format!("repl-diskless-sync {diskless}")).start();
        let mut rng = seed::rng();
        let mut workload = Workload::new(&primary);
        workload.run(&mut rng, 300);
        for load in ["disabled", "on-empty-db", "swapdb"] {
            let replica = Server::build(kind)
                .config(&format!("repl-diskless-load {load}"))
                .replica_of(&primary)
                .start();
            workload.run(&mut rng, 200);
            workload.settle();
            primary.assert_agrees_with(&replica);
            assert_counted(&replica);
            assert!(replica.node("fence").int() >= highest(&replica));
        }
    }
}

/// The server counts the leases that there are.
#[track_caller]
fn assert_counted(server: &Server) {
    let pictures = server.pictures();
    let held: usize = pictures.values().map(|lock| lock.holders.len()).sum();
    assert_eq!(server.node("leases").int(), held as i64, "{pictures:#?}");
}

/// The largest fence of a lock that is held.
fn highest(server: &Server) -> i64 {
    let pictures = server.pictures();
    let holders = pictures.values().flat_map(|lock| lock.holders.values());
    holders.map(|holder| holder.fence).max().unwrap_or(0)
}

#[apply(on_every_server)]
fn a_full_resync_replaces_what_a_replica_had(kind: Kind) {
    for load in ["disabled", "swapdb"] {
        let other = Server::start(kind);
        other.run("DLOCK.ACQUIRE old alice 60000");
        other.run("DLOCK.ACQUIRE job alice 60000 SHARED");
        let follower = Server::build(kind).config(&format!("repl-diskless-load {load}")).start();
        follower.run("DLOCK.ACQUIRE own alice 60000");
        let mut waiter = follower.waiter("DLOCK.ACQUIRE own bob 60000 WAIT 0");
        follower.run(&format!("REPLICAOF 127.0.0.1 {}", other.port()));
        let answer = waiter.try_recv();
        assert!(answer.is_err() || answer.is_ok_and(|answer| answer.code() == "UNBLOCKED"));
        other.assert_agrees_with(&follower);
        assert_eq!(follower.node("leases").int(), 2);

        let next = Server::start(kind);
        next.run("DLOCK.ACQUIRE job bob 60000");
        follower.run(&format!("REPLICAOF 127.0.0.1 {}", next.port()));
        eventually("it follows the next", || follower.run("EXISTS old").int() == 0);
        next.assert_agrees_with(&follower);
        assert_eq!(follower.node("leases").int(), 1);
        follower.run("REPLICAOF NO ONE");
        assert_eq!(follower.run("DLOCK.RELEASE job bob").int(), 1);
        assert_eq!(follower.node("leases").int(), 0);
    }
}
