//! The module's configuration: its defaults, its limits, and changes at run time.

use harness::{Kind, Server, apply, on_one_server, on_two_servers};

fn get(server: &Server, name: &str) -> String {
    server.run(&format!("CONFIG GET {name}")).at(name).text()
}

#[apply(on_one_server)]
fn defaults_are_as_documented(kind: Kind) {
    let server = Server::build(kind).as_it_comes().start();
    assert_eq!(get(&server, "dlock.max-ttl"), "600000");
    assert_eq!(get(&server, "dlock.newborn-quarantine"), "60000");
    assert_eq!(get(&server, "dlock.max-memory-percent"), "50");
    assert_eq!(get(&server, "dlock.quarantine"), "auto");
    assert_eq!(get(&server, "dlock.state-file"), format!("dlock-{}.state", server.port()));
}

#[apply(on_one_server)]
fn the_configuration_file_sets_values(kind: Kind) {
    let server = Server::build(kind)
        .config("dlock.max-ttl 5000")
        .config("dlock.max-memory-percent 7")
        .config("dlock.quarantine off")
        .config("dlock.state-file my.state")
        .start();
    assert_eq!(get(&server, "dlock.max-ttl"), "5000");
    assert_eq!(get(&server, "dlock.max-memory-percent"), "7");
    assert_eq!(get(&server, "dlock.quarantine"), "off");
    assert_eq!(get(&server, "dlock.state-file"), "my.state");
    server.run("DLOCK.ACQUIRE job alice 5001").assert_error("TOOLONG", "5000 ms is the longest");
}

#[apply(on_two_servers)]
fn a_bad_value_in_the_configuration_file_stops_the_start(kind: Kind) {
    for line in [
        "dlock.max-ttl none",
        "dlock.max-ttl 0",
        "dlock.max-memory-percent -1",
        "dlock.quarantine never",
        "dlock.quarantine 0",
        "dlock.quarantine 4294967296",
    ] {
        let started = Server::build(kind).config(line).try_start();
        assert!(started.is_err(), "{line}");
    }
}

#[apply(on_one_server)]
fn the_longest_lease_can_be_changed(kind: Kind) {
    let server = Server::start(kind);
    server.run("DLOCK.ACQUIRE old alice 60000");
    assert_eq!(server.run("CONFIG SET dlock.max-ttl 5000").text(), "OK");
    assert_eq!(get(&server, "dlock.max-ttl"), "5000");

    for request in ["DLOCK.ACQUIRE job bob 5001", "DLOCK.EXTEND old alice 5001"] {
        let refused = server.run(request);
        assert_eq!(refused.code(), "TOOLONG", "{request}");
        let words = refused.error();
        assert!(words.contains("5000") && words.contains("5001"), "{words}");
    }
    assert!(server.run("DLOCK.ACQUIRE job bob 5000").int() > 0);
    assert_eq!(server.run("DLOCK.EXTEND job bob 5000").int(), 1);
    // Leases that run already are kept.
    assert!(server.holder("old")["ttl-ms"].int() > 30_000);
}

#[apply(on_one_server)]
fn bad_values_are_refused_and_change_nothing(kind: Kind) {
    let server = Server::start(kind);
    for (name, default) in [("dlock.max-ttl", "600000"), ("dlock.max-memory-percent", "50")] {
        for value in ["-1", "abc", "99999999999999999999", "1.5"] {
            let set = format!("CONFIG SET {name} {value}");
            server.run(&set).assert_error("ERR", name);
            assert_eq!(get(&server, name), default);
        }
    }
    server.run("CONFIG SET dlock.max-ttl 0").assert_error("ERR", "between 1 and");
    assert_eq!(get(&server, "dlock.max-ttl"), "600000");
}

#[apply(on_two_servers)]
fn settings_survive_a_rewrite_of_the_configuration_file(kind: Kind) {
    let server = Server::start(kind);
    server.run("CONFIG SET dlock.max-ttl 7000");
    server.run("CONFIG SET dlock.quarantine 9000");
    assert_eq!(server.run("CONFIG REWRITE").text(), "OK");
    let file = std::fs::read_to_string(server.folder().join("server.conf")).unwrap();
    assert!(file.contains("dlock.max-ttl 7000"), "{file}");
    assert!(file.contains("dlock.quarantine \"9000\""), "{file}");
}
