//! A long lease keeps its own key in quarantine after a crash, and no other key.

use harness::quarantine::{CRASHED, PROMOTED, Refusal};
use harness::{Kind, Server, apply, bytes, eventually, on_one_server, on_two_servers};

const HOUR: i64 = 3_600_000;

/// Asserts that the key alone is in quarantine, by a lease of this many milliseconds. Returns the
/// rest.
#[track_caller]
fn assert_kept_back(server: &Server, key: &str, ttl: i64) -> i64 {
    let refusal = Refusal::read(&server.run(&format!("DLOCK.ACQUIRE {key} somebody 1000")));
    assert_eq!(refusal.reason, CRASHED);
    assert!(refusal.left > ttl - HOUR / 2, "{refusal:?}, with a lease of {ttl} ms");
    assert!(server.run("DLOCK.ACQUIRE another somebody 1").is_int());
    refusal.left
}

/// Kills it and starts it again, until it grants.
fn crash(server: &mut Server) {
    server.kill();
    server.start_again();
    server.until_it_grants();
}

#[apply(on_one_server)]
fn a_long_lease_keeps_its_own_key_waiting_and_no_other(kind: Kind) {
    let mut server = Server::start(kind);
    server.run("DLOCK.ACQUIRE usual alice 300");
    assert!(server.run(&format!("DLOCK.ACQUIRE long alice {}", 4 * HOUR)).is_int());
    let node = server.run("DLOCK.NODE");
    assert!((300..=337).contains(&node.at("usual-bound-ms").int()), "{node:?}");
    assert!(node.at("lease-bound-ms").int() >= 4 * HOUR, "{node:?}");
    assert_eq!(node.at("long-keys").int(), 1, "{node:?}");
    // A bound in the state file is not forgotten by one crash more.
    for _ in 0..2 {
        crash(&mut server);
        let left = assert_kept_back(&server, "long", 4 * HOUR);
        let node = server.run("DLOCK.NODE");
        assert_eq!(node.at("quarantine-ms").int(), 0, "{node:?}");
        assert_eq!(node.at("quarantine-reason").text(), CRASHED, "{node:?}");
        assert_eq!(node.at("quarantine-keys").int(), 1, "{node:?}");
        let longest = node.at("quarantine-longest-ms").int();
        assert!((1..=left).contains(&longest), "{longest} of {left}");
        assert_eq!(server.info_number("dlock", "dlock_quarantine_keys"), 1);
        assert!(server.info_number("dlock", "dlock_quarantine_longest_ms") > HOUR);
        assert!(server.log().contains("1 key may be held for up to"), "{}", server.log());
        assert!(server.log().contains("the quarantine is over, but for 1 key"));
    }
    server.run("CONFIG SET dlock.quarantine off");
    assert!(server.run("DLOCK.ACQUIRE long bob 1000").is_int());
    assert_eq!(server.node("quarantine-keys").int(), 0);
}

#[apply(on_one_server)]
fn every_way_to_a_long_lease_is_remembered_of_its_key(kind: Kind) {
    let mut server = Server::build(kind).config("dlock.usual-ttl 100").start();
    let ttl = 2 * HOUR;
    for (key, mode) in [("plain", ""), ("shared", "SHARED"), ("pool", "LIMIT 3")] {
        assert!(server.run(&format!("DLOCK.ACQUIRE {key} alice {ttl} {mode}")).is_int());
    }
    // The first end of a crowd is not its last.
    assert!(server.run("DLOCK.ACQUIRE shared bob 50 SHARED").is_int());
    for key in ["again", "extended", "waited"] {
        assert!(server.run(&format!("DLOCK.ACQUIRE {key} alice 60000")).is_int());
    }
    assert!(server.run(&format!("DLOCK.ACQUIRE again alice {ttl}")).is_int());
    assert_eq!(server.run(&format!("DLOCK.EXTEND extended alice {ttl}")).int(), 1);
    let mut waiter = server.waiter(&format!("DLOCK.ACQUIRE waited bob {ttl} WAIT 0"));
    server.run("DLOCK.RELEASE waited alice");
    assert!(waiter.recv().is_int());
    let script = format!("return redis.call('DLOCK.ACQUIRE', KEYS[1], 'alice', '{ttl}')");
    assert!(server.client().run_args(&["EVAL", &script, "1", "scripted"]).is_int());
    let payload = server.run("DUMP plain");
    let restored = server.client().run_args(&bytes!["RESTORE", "restored", "0", payload.bytes()]);
    assert_eq!(restored.text(), "OK");
    crash(&mut server);
    for key in ["plain", "shared", "pool", "again", "extended", "waited", "scripted", "restored"] {
        assert_kept_back(&server, key, ttl);
    }
}

/// The name of a key that goes stays in quarantine: the data set that comes back may be older.
#[apply(on_two_servers)]
fn a_key_that_was_moved_or_swapped_keeps_its_name_back_in_every_database(kind: Kind) {
    let ways: [&[&str]; 4] = [
        &["MOVE long 1"],
        &["SWAPDB 0 1"],
        &["RENAME long other"],
        &["MULTI", "DLOCK.BREAK long", "DLOCK.ACQUIRE long alice 7200000", "EXEC"],
    ];
    for way in ways {
        let mut server = Server::build(kind).config("dlock.usual-ttl 100").start();
        assert!(server.run("DLOCK.ACQUIRE long alice 7200000").is_int());
        let mut client = server.client();
        for words in way {
            assert!(!client.run(words).is_error(), "{words}");
        }
        crash(&mut server);
        assert_kept_back(&server, "long", 2 * HOUR);
        server.run("SELECT 1");
        assert_kept_back(&server, "long", 2 * HOUR);
    }
}

#[apply(on_two_servers)]
fn a_promoted_replica_keeps_back_the_keys_that_its_primary_told_it_of(kind: Kind) {
    let primary = Server::build(kind).config("dlock.usual-ttl 100").start();
    let replica = Server::build(kind).config("dlock.usual-ttl 100").replica_of(&primary).start();
    primary.until_streaming_to(&replica);
    for n in 0..20 {
        assert!(primary.run(&format!("DLOCK.ACQUIRE long{n} alice {}", 2 * HOUR)).is_int());
    }
    let said = || replica.node("long-keys").int() == 20;
    eventually("the replica has written it down", said);
    // The replica has only heard that this lease is over.
    primary.run("DEL long7");
    primary.until_followed_by(&replica);
    replica.run("REPLICAOF NO ONE");
    replica.until_it_grants();
    for (key, waits) in [("long7", true), ("another", false)] {
        let answer = replica.run(&format!("DLOCK.ACQUIRE {key} bob 1000"));
        assert_eq!(answer.is_error(), waits, "{key}: {answer:?}");
        if waits {
            assert_eq!(Refusal::read(&answer).reason, PROMOTED);
        }
    }
}

/// A lease that the crash lost may have been granted before the log began.
#[apply(on_one_server)]
fn a_log_does_not_count_as_complete_before_the_last_key_is_free(kind: Kind) {
    let mut server = Server::build(kind).config("dlock.usual-ttl 100").start();
    server.run(&format!("DLOCK.ACQUIRE long alice {HOUR}"));
    server.kill();
    server.add_config("appendonly yes");
    server.add_config("appendfsync always");
    server.add_config("no-appendfsync-on-rewrite no");
    server.add_config("aof-load-truncated no");
    server.start_again();
    server.until_it_grants();
    assert!(server.run("DLOCK.ACQUIRE another alice 50").is_int());
    assert!(!server.state_text().contains("log complete"));
    crash(&mut server);
    assert_kept_back(&server, "long", HOUR);
    server.run("CONFIG SET dlock.quarantine off");
    server.until_its_log_is_complete();
}

/// All who restore locks count as one user. A data set that is loaded comes with as many as there are.
#[apply(on_two_servers)]
fn long_leases_that_are_restored_keep_back_their_own_keys_alone(kind: Kind) {
    let mut server = Server::start(kind);
    assert!(server.run(&format!("DLOCK.ACQUIRE long alice {}", 2 * HOUR)).is_int());
    let payload = server.run("DUMP long");
    let mut client = server.client();
    let mut restore = |n| {
        let name = format!("restored{n}");
        let answer = client.run_args(&bytes!["RESTORE", name.as_str(), "0", payload.bytes()]);
        client.run(&format!("DEL {name}"));
        answer
    };
    let answers: Vec<_> = (0..200).map(&mut restore).collect();
    let taken = answers.iter().take_while(|answer| !answer.is_error()).count();
    assert!((60..=64).contains(&taken), "{taken}");
    answers[taken..].iter().for_each(|answer| answer.assert_error("ERR", "Bad data format"));
    assert!(server.log().contains("a stored lease is longer than dlock.usual-ttl"));
    assert!(server.run(&format!("DLOCK.ACQUIRE other bob {}", 2 * HOUR)).is_int());
    assert!(server.node("usual-bound-ms").int() <= HOUR);
    crash(&mut server);
    assert_kept_back(&server, "restored7", 2 * HOUR);
    assert!(server.node("quarantine-ms").int() <= HOUR);
}
