//! The server's work for locks, whatever they are used for: save points, refused writes, idle keys, and
//! clients that keep it busy.

use harness::{Kind, Server, apply, eventually, on_every_server, on_two_servers};

#[apply(on_two_servers)]
fn a_save_point_counts_locks(kind: Kind) {
    let mut server = Server::build(kind).config("save 1 10").start();
    for i in 0..20 {
        server.run(&format!("DLOCK.ACQUIRE job:{i} alice 60000"));
    }
    let saved = || server.info_number("persistence", "rdb_changes_since_last_save") == 0;
    eventually("it is saved", saved);
    server.kill();
    server.start_again();
    assert_eq!(server.node("leases").int(), 20);
}

/// Redis 8.6 looks the key up after the notice of its change, and counts a missing one.
#[apply(on_every_server)]
fn a_lease_that_ends_is_no_miss_of_a_key(kind: Kind) {
    let server = Server::start(kind);
    let answers = server.at_once(&["DLOCK.ACQUIRE job alice 20", "INFO stats"]);
    let stats = answers[1].text();
    let before = stats.lines().find_map(|line| line.strip_prefix("keyspace_misses:"));
    let before: i64 = before.and_then(|number| number.parse().ok()).expect("it says so");
    eventually("the lease is over", || server.node("leases").int() == 0);
    let own = i64::from(kind == Kind::Redis86);
    assert_eq!(server.info_number("stats", "keyspace_misses"), before + own);
}

#[apply(on_two_servers)]
fn a_key_that_is_touched_all_the_time_keeps_no_other_waiting(kind: Kind) {
    let server = Server::start(kind);
    server.run("DLOCK.ACQUIRE hot alice 60000");
    let _bob = server.waiter("DLOCK.ACQUIRE hot bob 60000 WAIT 0");
    server.run("DLOCK.ACQUIRE job alice 200");
    let mut carol = server.waiter("DLOCK.ACQUIRE job carol 60000 WAIT 0");
    let mut busy = server.client();
    let granted = (0..2_000).any(|_| {
        for _ in 0..500 {
            busy.send("PEXPIRE hot 100000000");
        }
        for _ in 0..500 {
            busy.recv();
        }
        carol.has_answer()
    });
    assert!(granted && carol.recv().int() > 0, "carol was kept waiting");
}

#[apply(on_two_servers)]
fn renaming_strings_leaves_nothing_behind(kind: Kind) {
    let server = Server::start(kind);
    server.run("SET a 1");
    let mut client = server.client();
    let mut rename = |times: usize| {
        for _ in 0..times {
            for _ in 0..500 {
                client.send("RENAME a b");
                client.send("RENAME b a");
            }
            for _ in 0..1000 {
                client.recv();
            }
        }
        server.info_number("memory", "used_memory")
    };
    let before = rename(10);
    let after = rename(40);
    assert!(after < before + 1_000_000, "{before} {after}");
}
