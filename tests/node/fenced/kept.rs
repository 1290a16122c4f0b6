//! Marks on replicas, in files, in payloads and in a cluster; and what could lower one.

use harness::{
    Cluster, Kind, Server, Value, apply, bytes, eventually, on_every_server, on_one_server,
    on_two_servers,
};

#[apply(on_every_server)]
fn replicas_get_the_mark_with_the_effect(kind: Kind) {
    let (primary, replica) = Server::pair(kind);
    for words in [
        "DLOCK.FENCED mark 7 SET data 1 PX 60000",
        "DLOCK.FENCED mark 6 SET data 2",
        "DLOCK.FENCED mark 8 NOPE",
        "DLOCK.FENCED new 8 NOPE",
        "DLOCK.FENCED mark 9 GET data",
        "DLOCK.FENCED mark 9 INCR data",
        "DLOCK.FENCED mark 10 SWAPDB 0 1",
        "DLOCK.FENCED mark 3 SELECT 1",
        "DLOCK.FENCED mark 11 RENAME mark other",
        "DLOCK.FENCED mark 12 DEL mark",
    ] {
        primary.run(words);
        primary.assert_agrees_with(&replica);
    }
    primary.run("DLOCK.FENCED mark 20 SPOP nothing");
    primary.assert_agrees_with(&replica);
    assert_eq!(replica.run("DLOCK.MARK mark").int(), 20);
    for words in ["DLOCK.FENCED mark 21", "DLOCK.FENCED mark 21 GET data"] {
        assert_eq!(replica.run(words).code(), "READONLY", "{words}");
    }
    assert_eq!(replica.run("DLOCK.MARK mark").int(), 20);
}

/// A RESTORE may not lower a mark when a client sends it, nor when the server reads it from the
/// log.
#[apply(on_two_servers)]
fn a_start_from_the_log_makes_each_mark_what_it_was(kind: Kind) {
    for preamble in ["yes", "no"] {
        let preamble = format!("aof-use-rdb-preamble {preamble}");
        let mut server = Server::build(kind).append_only().config(&preamble).start();
        let other = Server::start(kind);
        other.run("DLOCK.FENCED moved 7");
        let mut client = server.client();
        let keys = ["restored", "moved", "deleted", "other", "renamed", "again", "new"];
        for db in ["1", "0"] {
            client.run(&format!("SELECT {db}"));
            keys.iter().for_each(|key| _ = client.run(&format!("DLOCK.FENCED {key} 7")));
            let copy = client.run("DUMP restored");
            keys[..6].iter().for_each(|key| _ = client.run(&format!("DLOCK.FENCED {key} 9")));
            client.run("DEL deleted");
            client.run("SET other text");
            client.run("RENAME renamed elsewhere");
            for key in keys.iter().filter(|key| **key != "moved") {
                let restore = bytes!["RESTORE", key, "0", copy.bytes(), "REPLACE"];
                assert_eq!(client.run_args(&restore).text(), "OK");
            }
            client.run("DLOCK.FENCED again 8");
            client.run("DLOCK.FENCED again 10");
            let last = bytes!["RESTORE", "again", "0", copy.bytes(), "REPLACE"];
            client.run("MULTI");
            client.run_args(&last);
            client.run("EXEC");
        }
        let migrate = format!("MIGRATE 127.0.0.1 {} moved 0 5000 COPY REPLACE", server.port());
        assert_eq!(other.run(&migrate).text(), "OK");
        let digest = server.digest();
        let marks = |server: &Server| -> Vec<Value> {
            let keys = keys.iter().chain(&["elsewhere"]);
            keys.map(|key| server.run(&format!("DLOCK.MARK {key}"))).collect()
        };
        let before = marks(&server);
        assert_eq!(before, [9, 9, 7, 7, 7, 10, 7, 9].map(Value::Int));
        for rewrites in [false, true] {
            if rewrites {
                server.run("BGREWRITEAOF");
                server.until_log_is_rewritten();
            }
            server.kill();
            server.start_again();
            assert_eq!(marks(&server), before);
            assert_eq!(server.digest(), digest);
        }
        assert_eq!(server.run("DLOCK.FENCED restored 8 SET data late").code(), "STALE");
    }
}

/// A file that is loaded over the present data brings older marks.
#[apply(on_two_servers)]
fn a_snapshot_that_is_merged_lowers_no_mark(kind: Kind) {
    let server = Server::start(kind);
    server.run("DLOCK.FENCED mark 7");
    server.run("DLOCK.FENCED gone 7");
    server.run("SAVE");
    server.run("DLOCK.FENCED mark 9");
    server.run("DEL gone");
    assert_eq!(server.run("DEBUG RELOAD NOSAVE NOFLUSH MERGE").text(), "OK");
    assert_eq!(server.run("DLOCK.MARK mark").int(), 9);
    assert_eq!(server.run("DLOCK.MARK gone").int(), 7);
    assert_eq!(server.run("DEBUG RELOAD NOSAVE").text(), "OK");
    assert_eq!(server.run("DLOCK.MARK mark").int(), 7);
}

/// A data set that is loaded beside the old one replaces it as a whole.
#[apply(on_two_servers)]
fn a_replica_takes_the_marks_of_its_primary_and_none_of_its_own(kind: Kind) {
    let primary = Server::build(kind)
        .config("repl-diskless-sync yes")
        .config("repl-backlog-size 16384")
        .start();
    let replica =
        Server::build(kind).config("repl-diskless-load swapdb").replica_of(&primary).start();
    primary.run("DLOCK.FENCED mark 9");
    primary.until_streaming_to(&replica);
    let syncs = primary.info_number("stats", "sync_full");
    // More than the backlog has room for.
    let long = format!("SET long {}", "x".repeat(200_000));
    primary.at_once(&["CLIENT KILL TYPE replica", "DEL mark", "DLOCK.FENCED mark 7", &long]);
    eventually("it is sent everything", || primary.info_number("stats", "sync_full") > syncs);
    primary.assert_agrees_with(&replica);
    assert_eq!(replica.run("DLOCK.MARK mark").int(), 7);
}

#[apply(on_one_server)]
fn a_restored_fence_more_than_a_day_ahead_is_refused(kind: Kind) {
    let server = Server::start(kind);
    let fast = Server::build(kind).with_movable_wall_clock().start();
    fast.set_wall_clock(100_000);
    let now = server.run("TIME").items()[0].text().parse::<i64>().unwrap();
    let raise = format!("DLOCK.FENCED mark {}", (now + 100_000) * 1_000_000);
    eventually("the other server's clock is ahead", || fast.run(&raise).text() == "OK");
    let copy = fast.run("DUMP mark");
    let restore = bytes!["RESTORE", "copy", "0", copy.bytes()];
    server.client().run_args(&restore).assert_error("ERR", "Bad data format");
    assert_eq!(server.run("DBSIZE").int(), 0);
    assert_eq!(fast.client().run_args(&restore).text(), "OK");
}

#[apply(on_two_servers)]
fn a_mark_has_no_expiry(kind: Kind) {
    let primary = Server::start(kind);
    let replica = Server::build(kind).replica_of(&primary).start();
    primary.until_streaming_to(&replica);
    for (fence, words) in [
        (7, "DLOCK.FENCED mark 7 GET x"),
        (7, "DLOCK.FENCED mark 6"),
        (7, "DLOCK.FENCED mark 6 SET x late"),
        (8, "DLOCK.FENCED mark 8"),
    ] {
        primary.run("DLOCK.FENCED mark 7");
        assert_eq!(primary.run("PEXPIRE mark 60000").int(), 1);
        primary.run(words);
        assert_eq!(primary.run("PTTL mark").int(), -1, "{words}");
        assert_eq!(primary.run("DLOCK.MARK mark").int(), fence);
        primary.assert_agrees_with(&replica);
        assert_eq!(replica.run("PTTL mark").int(), -1, "{words}");
    }
}

#[apply(on_one_server)]
fn a_server_that_may_evict_marks_refuses_to_fence(kind: Kind) {
    let server = Server::build(kind).config("maxmemory-policy allkeys-lru").start();
    let refused = server.run("DLOCK.FENCED mark 7 SET data 1");
    assert!(refused.error().contains("maxmemory-policy"), "{refused:?}");
    assert_eq!(server.run("DBSIZE").int(), 0);
    for (policy, fences) in
        [("volatile-lru", true), ("allkeys-random", false), ("noeviction", true)]
    {
        server.run(&format!("CONFIG SET maxmemory-policy {policy}"));
        let answer = server.run("DLOCK.FENCED mark 7 GET data");
        assert_eq!(answer.is_null(), fences, "{policy}: {answer:?}");
    }
}

/// Servers look for all keys of a client's command in the table of one slot.
#[apply(on_every_server)]
fn the_keys_of_a_command_are_in_the_slot_of_the_mark(kind: Kind) {
    let cluster = Cluster::start(kind);
    let mark = cluster.key(1, "mark");
    let here = format!("{{{mark}}}:data");
    let moved = format!("MOVED {} 127.0.0.1:{}", cluster.slot(&mark), cluster.nodes[1].port());
    let put = format!("DLOCK.FENCED {{{mark}}}:mark 7 SET {here} 1");
    assert_eq!(cluster.nodes[0].run(&put).error(), moved);
    let node = &cluster.nodes[1];
    assert_eq!(node.run(&put).text(), "OK");
    let elsewhere = cluster.key(2, "data");
    let slots = (0..).map(|n| format!("key{n}"));
    let beside = slots
        .filter(|key| cluster.slot(key) != cluster.slot(&mark))
        .find(|key| !node.run(&format!("GET {key}")).is_error())
        .expect("a node has several slots");
    for command in [
        format!("SET {elsewhere} 1"),
        format!("SET {beside} 1"),
        format!("MSET {here} 2 {beside} 1"),
    ] {
        let answer = node.run(&format!("DLOCK.FENCED {{{mark}}}:mark 8 {command}"));
        assert_eq!(answer.code(), "CROSSSLOT", "{command}: {answer:?}");
        assert_eq!(node.run(&format!("EXISTS {beside}")).int(), 0);
        assert_eq!(node.run(&format!("DLOCK.MARK {{{mark}}}:mark")).int(), 7);
    }
    assert_eq!(node.run(&put.replace("SET", "APPEND")).int(), 2);
    assert_eq!(node.run(&format!("DLOCK.FENCED {{{mark}}}:mark 8")).text(), "OK");
}
