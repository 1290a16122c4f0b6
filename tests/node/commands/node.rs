//! DLOCK.NODE: a node's report about itself.

use harness::{Kind, Server, apply, eventually, on_every_server, on_one_server};

#[apply(on_one_server)]
fn a_fresh_node_describes_itself(kind: Kind) {
    let server = Server::start(kind);
    let node = server.run("DLOCK.NODE");
    // In reading order.
    let names: Vec<String> = node.items().iter().step_by(2).map(|name| name.text()).collect();
    assert_eq!(names, FIELDS);
    assert_eq!(node.at("version").text(), env!("CARGO_PKG_VERSION"));
    assert!(!node.at("node-id").text().is_empty());
    assert_eq!(node.at("granting").text(), "yes");
    assert!(node.at("fence-reserved").int() >= node.at("fence").int());
    assert_eq!(node.at("durable").text(), "yes");
    assert_eq!(node.at("state-file").text(), server.state_file().display().to_string());
    assert_eq!(node.at("role").text(), "primary");
    assert_eq!(node.at("boot").int(), 1);
    for number in ["lease-bound-ms", "quarantine-ms", "leases", "waiters"] {
        assert_eq!(node.at(number).int(), 0, "{number}");
    }
    for text in ["state-file-error", "quarantine-reason"] {
        assert_eq!(node.at(text).text(), "", "{text}");
    }
}

/// The fields of DLOCK.NODE.
const FIELDS: [&str; 18] = [
    "version",
    "node-id",
    "boot",
    "granting",
    "fence",
    "fence-reserved",
    "fence-ahead-ms",
    "lease-bound-ms",
    "durable",
    "state-file",
    "state-file-error",
    "quarantine-ms",
    "quarantine-reason",
    "leases",
    "waiters",
    "places",
    "places-refused",
    "role",
];

/// A server that takes no writes refuses every lock.
#[apply(on_every_server)]
fn a_server_that_takes_no_writes_says_so(kind: Kind) {
    let server = Server::start(kind);
    let set = |name: &str, value: &str| {
        let set = server.client().run_args(&["CONFIG", "SET", name, value]);
        assert_eq!(set.text(), "OK", "{name}");
    };
    // A folder in the place of the file: it cannot be saved.
    std::fs::create_dir(server.folder().join("dump.rdb")).expect("a folder can be made");
    for (name, refuses, usual, code) in [
        ("maxmemory", "1", "0", "OOM"),
        ("min-replicas-to-write", "1", "0", "NOREPLICAS"),
        ("save", "3600 1", "", "MISCONF"),
    ] {
        set(name, refuses);
        if name == "save" {
            server.run("BGSAVE");
        }
        eventually("it says so", || server.node("granting").text() == code);
        assert_eq!(server.info("dlock")["dlock_granting"], code);
        let script = "return redis.call('DLOCK.NODE')[8]";
        assert_eq!(server.client().run_args(&["EVAL", script, "0"]).text(), code);
        assert_eq!(server.run("DLOCK.ACQUIRE job alice 60000").code(), code);
        set(name, usual);
        assert_eq!(server.node("granting").text(), "yes");
    }
    assert!(server.run("KEYS *").items().is_empty());
}

#[apply(on_one_server)]
fn leases_and_waiters_are_counted_over_all_databases(kind: Kind) {
    let server = Server::start(kind);
    let mut other = server.client();
    other.run("SELECT 5");
    other.run("DLOCK.ACQUIRE a alice 60000");
    server.run("DLOCK.ACQUIRE a alice 60000 SHARED");
    server.run("DLOCK.ACQUIRE a bob 60000 SHARED");
    server.run("DLOCK.ACQUIRE b alice 60000 LIMIT 2");
    let _carol = server.waiter("DLOCK.ACQUIRE a carol 60000 WAIT 0");
    let dave = server.waiter("DLOCK.ACQUIRE a dave 60000 WAIT 0");
    assert_eq!(server.node("leases").int(), 4);
    assert_eq!(server.node("waiters").int(), 2);
    dave.close();
    eventually("a waiter leaves", || server.node("waiters").int() == 1);
    server.run("DLOCK.RELEASE b alice");
    assert_eq!(server.node("leases").int(), 3);
}

#[apply(on_one_server)]
fn a_replica_says_so(kind: Kind) {
    let primary = Server::start(kind);
    let replica = Server::build(kind).replica_of(&primary).start();
    assert_eq!(replica.node("role").text(), "replica");
    assert_eq!(primary.node("role").text(), "primary");
    assert_eq!(replica.node("granting").text(), "replica");
    assert_ne!(replica.node("node-id").text(), primary.node("node-id").text());
    replica.run("REPLICAOF NO ONE");
    assert_eq!(replica.node("role").text(), "primary");
}
