//! INFO dlock: counters, and how long locks were waited for and held.

use std::collections::BTreeMap;

use harness::{Kind, Server, apply, eventually, on_one_server};

fn count(server: &Server, name: &str) -> i64 {
    server.info_number("dlock", &format!("dlock_{name}"))
}

#[apply(on_one_server)]
fn it_says_what_the_node_says_of_itself_by_the_same_names(kind: Kind) {
    for state_file in ["my.state", "\"\""] {
        let server = Server::build(kind).config(&format!("dlock.state-file {state_file}")).start();
        server.run("DLOCK.ACQUIRE job alice 60000");
        // In one transaction.
        let mut client = server.client();
        for words in ["MULTI", "DLOCK.NODE", "INFO dlock"] {
            client.run(words);
        }
        let answers = client.run("EXEC");
        let (node, info) = (&answers.items()[0], answers.items()[1].text());
        let info: BTreeMap<&str, &str> =
            info.lines().filter_map(|line| line.split_once(":")).collect();
        let info = |field: &str| info[format!("dlock_{field}").as_str()];
        for (name, figure) in node.map().iter().filter(|(name, _)| *name != "role") {
            let shown = if figure.is_int() { figure.int().to_string() } else { figure.text() };
            assert_eq!(info(&name.replace('-', "_")), shown, "{name}");
        }
    }
}

#[apply(on_one_server)]
fn requests_are_counted_by_what_came_of_them(kind: Kind) {
    let server = Server::start(kind);
    server.run("DLOCK.ACQUIRE a alice 60000");
    server.run("DLOCK.ACQUIRE b alice 60000");
    assert_eq!(count(&server, "grants"), 2);
    server.run("DLOCK.ACQUIRE a bob 60000");
    assert_eq!(count(&server, "denials"), 1);
    server.run("DLOCK.ACQUIRE a bob 60000 WAIT 1");
    assert_eq!(count(&server, "denials"), 2);
    server.run("DLOCK.EXTEND a alice 60000");
    server.run("DLOCK.EXTEND a bob 60000");
    assert_eq!(count(&server, "extensions"), 1);
    server.run("DLOCK.RELEASE a alice");
    server.run("DLOCK.RELEASE a alice");
    assert_eq!(count(&server, "releases"), 1);
    server.run("DLOCK.BREAK b");
    assert_eq!(count(&server, "breaks"), 1);
    assert_eq!(count(&server, "leases"), 0);
    assert_eq!(count(&server, "expiries"), 0);
    assert_eq!(count(&server, "handovers"), 0);
}

#[apply(on_one_server)]
fn ends_by_time_and_by_connection_are_counted(kind: Kind) {
    let server = Server::start(kind);
    server.run("DLOCK.ACQUIRE job alice 20");
    eventually("the lease ends", || server.run("DBSIZE").int() == 0);
    assert_eq!(count(&server, "expiries"), 1);
    let mut bob = server.client();
    bob.run("DLOCK.ACQUIRE job bob 60000 EPHEMERAL");
    bob.close();
    eventually("the lock ends", || server.run("DBSIZE").int() == 0);
    assert_eq!(count(&server, "ephemeral_ends"), 1);
    assert_eq!(count(&server, "expiries"), 1);
}

/// Percentiles of several nodes, or of a part of a node's life, cannot be computed from percentiles.
#[apply(on_one_server)]
fn waits_and_holds_are_counted_in_buckets_that_can_be_added_up(kind: Kind) {
    let server = Server::start(kind);
    let lengths = |name: &str| -> BTreeMap<String, u64> {
        let line = &server.info("dlock")[&format!("dlock_{name}_us")];
        let pair = |pair: &str| {
            let (name, number) = pair.split_once('=').unwrap();
            (name.to_owned(), number.parse().unwrap())
        };
        line.split(',').map(pair).collect()
    };
    assert_eq!((lengths("wait")["count"], lengths("hold")["sum"]), (0, 0));
    server.run("DLOCK.ACQUIRE job alice 60000");
    let mut bob = server.waiter("DLOCK.ACQUIRE job bob 60000 WAIT 0");
    eventually("bob has waited for 60 ms", || {
        let lock = server.run("DLOCK.INSPECT job");
        lock.at("waiters").items()[0].at("waited-ms").int() >= 60
    });
    server.run("DLOCK.RELEASE job alice");
    bob.recv();
    let wait = lengths("wait");
    for (bucket, count) in [("le_100", 0), ("le_50000", 0), ("le_86400000000", 1), ("le_inf", 1)] {
        assert_eq!(wait[bucket], count, "{bucket}");
    }
    assert_eq!(wait["count"], 1);
    assert!(wait["sum"] >= 60_000);
    assert_eq!((lengths("hold")["count"], lengths("hold")["le_50000"]), (1, 0));
}
