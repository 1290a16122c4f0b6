//! DLOCK.INSPECT: holders and waiters of a lock.

use harness::{Client, Kind, Server, Value, apply, eventually, on_one_server};

fn fields(map: &Value) -> Vec<String> {
    map.map().into_keys().collect()
}

#[apply(on_one_server)]
fn a_held_lock_shows_its_holder(kind: Kind) {
    let server = Server::start(kind);
    let mut alice = server.client();
    let fence = alice.run("DLOCK.ACQUIRE job alice 60000 META host=a").int();

    let lock = server.run("DLOCK.INSPECT job");
    let names = ["holders", "holding", "limit", "mode", "waiters", "waiting"];
    assert_eq!(fields(&lock), names);
    assert_eq!(lock.at("mode").text(), "exclusive");
    assert_eq!(lock.at("limit").int(), 0);
    assert_eq!(lock.at("holding").int(), 1);
    assert_eq!(lock.at("waiting").int(), 0);
    assert!(lock.at("waiters").items().is_empty());

    assert_eq!(lock.at("holders").items().len(), 1);
    let holder = lock.at("holders").items()[0].clone();
    let names = ["away", "client", "ephemeral", "fence", "held-ms", "id", "meta", "ttl-ms"];
    assert_eq!(fields(&holder), names);
    assert_eq!(holder.at("id").text(), "4da10dd6");
    assert_eq!(holder.at("fence").int(), fence);
    assert_eq!(holder.at("client").int(), alice.id());
    assert_eq!(holder.at("meta").text(), "host=a");
    assert_eq!(holder.at("ephemeral").int(), 0);
    let (left, held) = (holder.at("ttl-ms").int(), holder.at("held-ms").int());
    assert!((1..=60_000).contains(&left), "{left}");
    assert!(held >= 0, "{held}");
}

#[apply(on_one_server)]
fn every_mode_has_its_name_and_its_holders(kind: Kind) {
    let server = Server::start(kind);
    for (key, option, mode, limit) in [
        ("a", "SHARED", "shared", 0),
        ("b", "LIMIT 7", "limit", 7),
        ("c", "LIMIT 65535", "limit", 65_535),
    ] {
        for token in ["t1", "t2"] {
            server.run(&format!("DLOCK.ACQUIRE {key} {token} 60000 {option}"));
        }
        let lock = server.run(&format!("DLOCK.INSPECT {key}"));
        assert_eq!(lock.at("mode").text(), mode);
        assert_eq!(lock.at("limit").int(), limit);
        let mut holders = server.holders(key);
        holders.sort();
        assert_eq!(holders, ["t1", "t2"]);
    }
}

#[apply(on_one_server)]
fn waiters_are_shown_in_their_order(kind: Kind) {
    let server = Server::start(kind);
    server.run("DLOCK.ACQUIRE job alice 60000");
    let mut bob = server.client();
    let id = bob.id();
    server.block(&mut bob, "DLOCK.ACQUIRE job bob 1000 WAIT 0 META host=b");
    let _carol = server.waiter("DLOCK.ACQUIRE job carol 1000 SHARED WAIT 90000");
    let _dave = server.waiter("DLOCK.ACQUIRE job dave 1000 LIMIT 4 WAIT 0");

    let lock = server.run("DLOCK.TOKENS job");
    assert_eq!(lock.at("waiting").int(), 3);
    let waiters = lock.at("waiters").items().to_vec();
    let [bob, carol, dave] = &waiters[..] else { panic!("{waiters:?}") };
    let names = ["away", "client", "id", "left-ms", "meta", "mode", "token", "waited-ms"];
    assert_eq!(fields(bob), names);
    assert_eq!(bob.at("token").text(), "bob");
    assert_eq!(bob.at("mode").text(), "exclusive");
    assert_eq!(bob.at("meta").text(), "host=b");
    assert_eq!(bob.at("client").int(), id);
    assert!(bob.at("left-ms").is_null());
    assert!(bob.at("waited-ms").int() >= 0);

    assert_eq!(carol.at("token").text(), "carol");
    assert_eq!(carol.at("mode").text(), "shared");
    assert_eq!(carol.at("meta").text(), "");
    let left = carol.at("left-ms").int();
    assert!((1..=90_000).contains(&left), "{left}");
    assert_eq!(dave.at("mode").text(), "limit");
}

#[apply(on_one_server)]
fn the_first_hundred_waiters_are_listed_and_all_are_counted(kind: Kind) {
    let server = Server::start(kind);
    server.run("DLOCK.ACQUIRE job alice 60000");
    let wait = |n| server.waiter(&format!("DLOCK.ACQUIRE job t{n} 60000 WAIT 0"));
    let _waiters: Vec<Client> = (0..101).map(wait).collect();
    let lock = server.run("DLOCK.INSPECT job");
    assert_eq!(lock.at("waiting").int(), 101);
    let expected: Vec<String> = (0..100).map(|n| format!("t{n}")).collect();
    assert_eq!(server.waiters("job"), expected);
}

#[apply(on_one_server)]
fn the_first_hundred_holders_are_listed_and_all_are_counted(kind: Kind) {
    let server = Server::start(kind);
    for (key, mode) in [("book", "SHARED"), ("pool", "LIMIT 500")] {
        let take = |n| format!("DLOCK.ACQUIRE {key} t{n:03} 60000 {mode}");
        server.client().pipeline((0..300).map(take));
        let expected: Vec<String> = (0..100).map(|n| format!("t{n:03}")).collect();
        assert_eq!(server.holders(key), expected);
        // A waiter that leaves makes room on the page.
        server.run(&format!("DLOCK.RELEASE {key} t003"));
        assert_eq!(server.holders(key).last(), Some(&"t100".to_owned()));
        for request in ["DLOCK.INSPECT", "DLOCK.TOKENS"] {
            let lock = server.run(&format!("{request} {key}"));
            assert_eq!(lock.at("holding").int(), 299);
            assert_eq!(lock.at("holders").items().len(), 100);
        }
    }
}

/// Nothing ends at a replica before its primary says so.
#[apply(on_one_server)]
fn leases_that_are_over_are_neither_listed_nor_counted(kind: Kind) {
    let (server, replica) = Server::pair(kind);
    let ttl = |n| if n % 2 == 0 { 60_000 } else { 300 };
    let take = |n| format!("DLOCK.ACQUIRE book t{n} {} SHARED", ttl(n));
    server.client().pipeline((0..240).map(take));
    server.run("DLOCK.ACQUIRE job alice 300");
    server.until_followed_by(&replica);
    server.pause();
    eventually("half of them are over", || {
        replica.run("DLOCK.INSPECT book").at("holding").int() == 120
    });
    let lock = replica.run("DLOCK.INSPECT book");
    assert_eq!(lock.at("holders").items().len(), 100);
    let long = |one: &Value| one.at("ttl-ms").int() > 1000;
    assert!(lock.at("holders").items().iter().all(long));
    eventually("so is the other lock", || replica.run("DLOCK.INSPECT job").is_null());
    server.resume();
}

#[apply(on_one_server)]
fn a_foreign_lock_shows_its_ttl(kind: Kind) {
    let server = Server::start(kind);
    server.run("SET job text");
    let lock = server.run("DLOCK.INSPECT job");
    assert_eq!(lock.at("mode").text(), "foreign");
    assert!(lock.at("ttl-ms").is_null());
    server.run("PEXPIRE job 60000");
    let left = server.run("DLOCK.INSPECT job").at("ttl-ms").int();
    assert!((1..=60_000).contains(&left), "{left}");
}
