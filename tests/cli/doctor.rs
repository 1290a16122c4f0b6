//! `dlock doctor`: a good set is silent, and every hazard that a test can make is found, with its fix.

use std::fs;

use harness::Builder;
use harness::{Cluster, Kind, Server, apply, eventually, on_one_server, wall_clock};
use serde_json::Value;

use crate::{address, addresses, dlock_at};

/// A healthy server.
fn good(kind: Kind) -> Builder {
    Server::build(kind).append_only()
}

#[track_caller]
fn start(builder: Builder) -> Server {
    let server = builder.start();
    // The servers of tests start with 0.
    assert_eq!(server.run("CONFIG SET dlock.newborn-quarantine 60000").text(), "OK");
    server
}

fn good_set(kind: Kind) -> Vec<Server> {
    (0..3).map(|_| start(good(kind))).collect()
}

/// The findings of a run: the severity, the name of the check, the nodes, the words with the fix.
#[track_caller]
fn findings(nodes: &[String], code: i32) -> Vec<(String, String, Vec<String>, String)> {
    let said = dlock_at(nodes, &["doctor", "--json"]).with_code(code).json();
    let (_, findings) = said.split_last().expect("the last line is a summary");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let read = |finding: &Value| {
        let nodes = finding["nodes"].as_array().expect("an array").iter().map(text).collect();
        assert!(!text(&finding["why"]).is_empty(), "{finding}");
        let words = format!("{}; {}", text(&finding["found"]), text(&finding["fix"]));
        (text(&finding["severity"]), text(&finding["check"]), nodes, words)
    };
    findings.iter().map(read).collect()
}

/// Asserts that there is one finding, about the second node.
#[track_caller]
fn assert_finds(nodes: &[String], severity: &str, check: &str, words: &str) {
    let code = i32::from(severity != "hint");
    let found = findings(nodes, code);
    let [(found_severity, found_check, about, found_words)] = &found[..] else {
        panic!("not one finding: {found:#?}");
    };
    assert_eq!((&found_severity[..], &found_check[..]), (severity, check), "{found:#?}");
    assert_eq!(about, &nodes[1..2], "{found:#?}");
    assert!(found_words.contains(words), "no {words:?} in {found_words:?}");
}

#[track_caller]
fn assert_silent(nodes: &[String]) {
    assert_eq!(findings(nodes, 0), []);
    let said = dlock_at(nodes, &["doctor"]).with_code(0);
    assert_eq!(said.err, "");
    let count = if nodes.len() == 1 { "1 node".into() } else { format!("{} nodes", nodes.len()) };
    assert_eq!(said.out, format!("{count}, everything checked is in order\n"));
}

/// Hazards that a running server can be given and relieved of.
#[apply(on_one_server)]
fn settings_that_are_hazards(kind: Kind) {
    let servers = good_set(kind);
    let nodes = addresses(&servers);
    assert_silent(&nodes);
    assert_silent(&nodes[..1]);
    for (setting, usual, severity, check, words) in [
        ("dlock.quarantine off", "dlock.quarantine auto", "warning", "quarantine_off", "auto"),
        ("timeout 60", "timeout 0", "warning", "timeout", "CONFIG SET timeout 0"),
        (
            "dlock.max-ttl 10000",
            "dlock.max-ttl 600000",
            "error",
            "max_ttl",
            "CONFIG SET dlock.max-ttl 600000",
        ),
        (
            "dlock.max-ttl 60000",
            "dlock.max-ttl 600000",
            "warning",
            "max_ttl",
            "CONFIG SET dlock.max-ttl 600000",
        ),
        (
            "maxmemory 1gb maxmemory-policy allkeys-lru",
            "maxmemory 0 maxmemory-policy noeviction",
            "warning",
            "eviction",
            "noeviction; if no job",
        ),
        ("maxmemory 1", "maxmemory 0", "error", "refuses", "OOM"),
        ("min-replicas-to-write 1", "min-replicas-to-write 0", "error", "refuses", "NOREPLICAS"),
    ] {
        assert_eq!(servers[1].run(&format!("CONFIG SET {setting}")).text(), "OK", "{setting}");
        assert_finds(&nodes, severity, check, words);
        assert_eq!(servers[1].run(&format!("CONFIG SET {usual}")).text(), "OK", "{usual}");
    }
    assert_silent(&nodes);
}

/// Hazards of the current state, and not of settings.
#[apply(on_one_server)]
fn states_that_are_hazards(kind: Kind) {
    let mut servers = good_set(kind);
    let nodes = addresses(&servers);

    servers[1].pause();
    let said = dlock_at(&nodes, &["doctor", "--node-timeout", "5s"]).with_code(1);
    let hung = format!("error, {}: it cannot be asked: no answer within 5.0 s\n", nodes[1]);
    assert!(said.out.starts_with(&hung), "{}", said.out);
    servers[1].resume();

    // A folder in the place of the file.
    fs::create_dir(servers[1].folder().join("dump.rdb")).expect("a folder can be made");
    servers[1].client().run_args(&["CONFIG", "SET", "save", "3600 1"]);
    servers[1].run("BGSAVE");
    eventually("it cannot save", || {
        servers[1].info("persistence")["rdb_last_bgsave_status"] == "err"
    });
    assert_finds(&nodes, "error", "refuses", "MISCONF");
    servers[1].client().run_args(&["CONFIG", "SET", "save", ""]);

    servers[1].client().fill_done("done", 0);
    servers[1].run("DLOCK.ACQUIRE job alice 60000");
    servers[1].run("DLOCK.RELEASE job alice DONE 60000").assert_error("TOOMANY", "done locks");
    assert_finds(&nodes, "warning", "limits", "1 request was refused with TOOMANY");
    servers[1].run("FLUSHALL");
    servers[1].run("CONFIG RESETSTAT");
    assert_silent(&nodes);

    servers[1].kill();
    let found = findings(&nodes, 1);
    assert_eq!((&found[0].1[..], &found[0].2[..]), ("unreachable", &nodes[1..2]), "{found:#?}");
    servers[1].start_again();
    servers[1].run("CONFIG SET dlock.newborn-quarantine 60000");
    let found = findings(&nodes, 1);
    assert_eq!((&found[0].1[..], &found[0].2[..]), ("quarantine", &nodes[1..2]), "{found:#?}");
    assert!(found[0].3.contains("the server was not shut down cleanly"), "{found:#?}");

    servers[1].stop();
    servers[2].stop();
    let found = findings(&nodes, 69);
    assert_eq!(found[0].2, nodes[1..], "said once for both: {found:#?}");
    assert_eq!(found[1].1, "majority", "{found:#?}");
}

/// Hazards from the start of a server.
#[apply(on_one_server)]
fn servers_that_are_hazards(kind: Kind) {
    let (one, three) = (start(good(kind)), start(good(kind)));
    let with = |server: &Server| vec![address(&one), address(server), address(&three)];
    for (line, severity, check, words) in [
        ("appendonly no", "hint", "persistence", "appendonly yes"),
        ("dlock.state-file \"\"", "warning", "state_file", "remove dlock.state-file"),
    ] {
        let server = start(good(kind).config(line));
        assert_finds(&with(&server), severity, check, words);
    }
    let bare = Server::build(kind).without_module().start();
    assert_finds(&with(&bare), "error", "module", "loadmodule");

    let replica = start(good(kind).replica_of(&one));
    one.until_followed_by(&replica);
    let found = findings(&with(&replica), 1);
    let of = format!("it is a replica of 127.0.0.1:{}", one.port());
    assert_eq!((&found[0].1[..], &found[0].2), ("replica", &vec![address(&replica)]));
    assert!(found[0].3.starts_with(&of), "{found:#?}");

    let nodes = [address(&one)];
    let found = findings_of(&nodes, "replicas");
    assert!(found.contains("it has 1 replica"), "{found}");
    one.run("CONFIG SET min-replicas-to-write 1");
    eventually("the replica counts", || {
        one.info("replication").get("min_slaves_good_slaves").is_some_and(|good| good == "1")
    });
    assert!(findings_of(&nodes, "min_replicas").contains("attach one more replica"));
}

/// The words of a check, among others.
#[track_caller]
fn findings_of(nodes: &[String], check: &str) -> String {
    let said = dlock_at(nodes, &["doctor", "--json"]).json();
    let finding = said.iter().find(|finding| finding["check"] == check);
    let finding = finding.unwrap_or_else(|| panic!("no {check} in {said:#?}"));
    format!("{}; {}", finding["found"], finding["fix"])
}

#[apply(on_one_server)]
fn nodes_that_are_not_independent(kind: Kind) {
    let mut servers = good_set(kind);
    let twice = [address(&servers[0]), format!("localhost:{}", servers[0].port())];
    assert!(findings_of(&twice, "duplicate").contains("leave only one of them"));
    assert!(findings_of(&addresses(&servers[..2]), "number").contains("there are two nodes"));

    servers[1].stop();
    servers[0].stop();
    fs::copy(servers[0].state_file(), servers[1].state_file()).expect("a file can be copied");
    servers[0].start_again();
    servers[1].start_again();
    let found = findings_of(&addresses(&servers), "node_id");
    assert!(found.contains("delete their state files"), "{found}");
}

#[test]
fn nodes_of_one_cluster() {
    let cluster = Cluster::start(Kind::Redis82);
    let nodes = addresses(&cluster.nodes);
    assert!(findings_of(&nodes, "cluster").contains("cluster-enabled no"));
    assert!(findings_of(&nodes[..1], "cluster").contains("redis+cluster://"));
}

#[apply(on_one_server)]
fn clocks(kind: Kind) {
    let mut servers = good_set(kind);
    servers[1] = start(good(kind).with_movable_wall_clock());
    let nodes = addresses(&servers);
    assert_silent(&nodes);
    servers[1].set_wall_clock(-90);
    assert_finds(&nodes, "warning", "clock", "behind this machine's");
    servers[1].set_wall_clock(3630);
    assert_finds(&nodes, "error", "clock", "60 min ahead of this machine's");
    // A fence of that time is too far ahead for the others. The server reads its clock now and then.
    eventually("it counts from there", || servers[1].next_fence() > wall_clock::micros(1800));
    let found = findings(&nodes, 1);
    assert_eq!(found[1].1, "fences", "{found:#?}");
    assert_eq!(found[1].2, [nodes[0].clone(), nodes[2].clone()]);
}

#[apply(on_one_server)]
fn a_disk_that_fails(kind: Kind) {
    let server = good(kind).with_small_disk().start();
    let nodes = [address(&server)];
    server.fill_disk();
    // A lease longer than all before has to be written to the state file first.
    assert_eq!(server.run("DLOCK.ACQUIRE job alice 600000").code(), "NOTDURABLE");
    let found = findings_of(&nodes, "state_file");
    assert!(found.contains("No space left on device"), "{found}");
    let said = dlock_at(&nodes, &["ready"]).with_code(69);
    assert!(said.err.contains("cannot write its state file"), "{}", said.err);
}

#[apply(on_one_server)]
fn a_user_that_may_not_do_everything(kind: Kind) {
    let servers = good_set(kind);
    let as_user = |rights: &str| {
        servers[1].run(&format!("ACL SETUSER app reset on >secret ~* &* +@all {rights}"));
        let mut nodes = addresses(&servers);
        nodes[1] = format!("redis://app:secret@{}", nodes[1]);
        let found = findings(&nodes, i32::from(rights.contains("ACQUIRE")));
        assert_eq!(found.len(), 1, "{found:#?}");
        assert_eq!(found[0].2, [address(&servers[1])], "without the password");
        found[0].clone()
    };
    let found = as_user("-DLOCK.ACQUIRE");
    assert_eq!((&found.0[..], &found.1[..]), ("error", "acl"));
    assert!(found.3.ends_with("ACL SETUSER <this user> +DLOCK.ACQUIRE"), "{found:?}");
    for rights in ["-CONFIG", "-INFO", "-TIME"] {
        let found = as_user(rights);
        assert_eq!((&found.0[..], &found.1[..]), ("hint", "skipped"), "{rights}");
    }
}

/// The fields for the checks have the same names on all servers.
#[apply(harness::on_every_server)]
fn a_good_node_is_silent(kind: Kind) {
    let server = start(good(kind));
    assert_silent(&[address(&server)]);
    // Doctor's trials leave no trace.
    assert!(server.run("KEYS *").items().is_empty());
    assert_eq!(server.info_number("dlock", "dlock_denials"), 0);
}
