//! The marks of a user, and memory.

use harness::{
    Client, Kind, Server, apply, bytes, eventually, on_every_server, on_one_server, on_two_servers,
};

use super::{leave_done, mark};
use crate::replicas::promotion::{pair, promote};

/// A connection of a user of this name, who may do anything.
fn user(server: &Server, name: &str) -> Client {
    server.run(&format!("ACL SETUSER {name} on nopass ~* &* +@all"));
    let mut client = server.client();
    client.run(&format!("AUTH {name} any"));
    client
}

#[track_caller]
fn assert_too_many(client: &mut Client, key: &str) {
    let held = client.run(&format!("DLOCK.ACQUIRE {key} alice 600000")).int();
    for options in ["DONE 600000", "DONE 600000 META text", "FINAL DONE 1"] {
        let refused = client.run(&format!("DLOCK.RELEASE {key} alice {options}"));
        refused.assert_error("TOOMANY", "done locks");
    }
    assert_eq!(client.run(&format!("DLOCK.CHECK {key} alice")).int(), held);
    assert_eq!(client.run(&format!("DLOCK.RELEASE {key} alice DONE 0")).int(), 1);
}

#[apply(on_one_server)]
fn one_mark_too_many_is_refused_to_its_user_alone(kind: Kind) {
    let server = Server::start(kind);
    let (mut app, mut other) = (user(&server, "app"), user(&server, "other"));
    leave_done(&mut app, "first", "600000 META text");
    app.fill_done("app", 1);
    assert_too_many(&mut app, "next");
    // Another connection of the same user and a transaction are no way around it.
    assert_too_many(&mut user(&server, "app"), "next");
    app.run("DLOCK.ACQUIRE next alice 600000");
    for words in ["MULTI", "DLOCK.RELEASE next alice DONE 600000"] {
        app.run(words);
    }
    assert_eq!(app.run("EXEC").items()[0].code(), "TOOMANY");
    assert_eq!(server.holders("next"), ["alice"]);
    // Other users have room, and scripts as one more user, whoever runs them.
    leave_done(&mut other, "other", "600000");
    let script = "return redis.call('DLOCK.RELEASE', KEYS[1], 'alice', 'DONE', 600000)";
    assert_eq!(app.run_args(&["EVAL", script, "1", "next"]).int(), 1);
    // A holder that repeats DONE has a mark already.
    let before = mark(&server, "first");
    assert_eq!(app.run("DLOCK.RELEASE first alice DONE 600000 META text").int(), 1);
    assert_eq!(mark(&server, "first"), before);
    server.run("DEL first");
    leave_done(&mut app, "last", "600000");
    assert_too_many(&mut app, "more");
}

/// Else one user's marks, which may stay for a year, take all the memory that locks may take.
#[apply(on_one_server)]
fn a_mark_with_a_long_name_counts_for_several_and_in_the_memory_of_locks(kind: Kind) {
    let server = Server::start(kind);
    let (mut app, long) = (user(&server, "app"), "x".repeat(1024));
    let memory = || server.info_number("dlock", "dlock_memory");
    let before = memory();
    leave_done(&mut app, &long, "600000");
    let taken = memory() - before;
    assert!((1024..2048).contains(&taken), "{taken} bytes");
    server.run(&format!("DEL {long}"));
    assert_eq!(memory(), before);
    app.fill_done("app", 2);
    assert_too_many(&mut app, &long);
    leave_done(&mut app, "next", "600000");
}

#[apply(on_every_server)]
fn a_mark_that_goes_makes_room_and_one_that_moves_does_not(kind: Kind) {
    let server = Server::start(kind);
    let mut app = user(&server, "app");
    let counted = || server.info_number("dlock", "dlock_done_keys");
    for (way, makes_room) in [
        ("DEL mark", true),
        ("UNLINK mark", true),
        ("DLOCK.BREAK mark", true),
        ("SET mark text", true),
        ("RENAME text mark", true),
        ("PEXPIRE mark 1", true),
        ("FLUSHDB SYNC", true),
        ("FLUSHALL ASYNC", true),
        ("DLOCK.ACQUIRE mark bob 600000 AGAIN 9007199254740991", true),
        ("evict", true),
        ("DEBUG RELOAD", false),
        ("RENAME mark other", false),
        ("MOVE mark 1", false),
        ("SWAPDB 0 1", false),
        ("PERSIST mark", false),
        ("PEXPIRE mark 700000", false),
    ] {
        server.run("FLUSHALL SYNC");
        server.run("SET text any");
        eventually("all are freed", || counted() == 0);
        leave_done(&mut app, "mark", "600000");
        assert_eq!(counted(), 1);
        match way {
            "evict" => server.evict_all(),
            way => assert!(!server.run(way).is_error(), "{way}"),
        }
        server.leave_quarantine();
        match makes_room {
            true => eventually(&format!("there is room after {way}"), || counted() == 0),
            false => assert_eq!(counted(), 1, "{way}"),
        }
    }
}

/// Else a few crashes would take a user beyond every limit. A payload that somebody restores could name anybody.
#[apply(on_two_servers)]
fn marks_count_for_their_user_after_a_crash_and_a_promotion_and_not_after_restore(kind: Kind) {
    for config in ["appendonly yes", "appendonly no"] {
        let mut server = Server::build(kind).append_only().config(config).start();
        leave_done(&mut user(&server, "app"), "mark", "600000");
        user(&server, "app").fill_done("app", 1);
        server.run("SAVE");
        server.kill();
        server.start_again();
        server.leave_quarantine();
        assert_too_many(&mut user(&server, "app"), "next");
    }
    let (primary, replica) = pair(kind);
    leave_done(&mut user(&primary, "app"), "mark", "600000");
    user(&primary, "app").fill_done("app", 1);
    primary.assert_agrees_with(&replica);
    promote(&replica);
    replica.leave_quarantine();
    let mut app = user(&replica, "app");
    assert_too_many(&mut app, "next");
    let copy = replica.run("DUMP mark");
    replica.run("DEL mark");
    app.run_args(&bytes!["RESTORE", "mark", "600000", copy.bytes()]);
    leave_done(&mut app, "next", "600000");
}

/// In the background, the server frees a large data set in a thread of its own.
#[apply(on_one_server)]
fn a_thousand_marks_that_go_at_once_make_room(kind: Kind) {
    let server = Server::start(kind);
    let mut app = user(&server, "app");
    let counted = || server.info_number("dlock", "dlock_done_keys");
    let text = "m".repeat(200);
    for way in ["FLUSHALL ASYNC", "FLUSHDB ASYNC", "UNLINK", "DEL", "expiry"] {
        let time = if way == "expiry" { 2_000 } else { 600_000 };
        let answers = app.pipeline((0..1_000).flat_map(|n| {
            let release = format!("DLOCK.RELEASE job{n} alice DONE {time} META {text}");
            [format!("DLOCK.ACQUIRE job{n} alice 600000"), release]
        }));
        let refused = answers.iter().find(|answer| !answer.is_int());
        assert!(refused.is_none(), "{way}: {refused:?}");
        if way == "expiry" {
            eventually("the time is over", || server.run("DBSIZE").int() == 0);
        } else if way.starts_with("FLUSH") {
            assert_eq!(counted(), 1_000);
            server.run(way);
        } else {
            let keys = (0..1_000).map(|n| format!(" job{n}")).collect::<String>();
            assert_eq!(server.run(&format!("{way}{keys}")).int(), 1_000);
        }
        eventually("all are freed", || counted() == 0);
    }
}

#[apply(on_one_server)]
fn a_full_server_leaves_locks_done_in_the_room_that_they_have(kind: Kind) {
    let server = Server::start(kind);
    server.run("DLOCK.ACQUIRE job alice 60000");
    let fence = server.run("DLOCK.ACQUIRE other alice 60000").int();
    let mut bob = server.waiter("DLOCK.ACQUIRE job bob 60000 WAIT 0");
    server.run("CONFIG SET maxmemory 500000");
    assert_eq!(server.run("SET text any").code(), "OOM");
    assert_eq!(server.run("DLOCK.RELEASE job alice DONE 60000 META text").int(), 1);
    assert_eq!(bob.recv().code(), "DONE");
    // Of this, locks may take nothing: a mark may take what its lock took, and no more.
    server.run("CONFIG SET maxmemory 1");
    let long = "m".repeat(100);
    let refused = server.run(&format!("DLOCK.RELEASE other alice DONE 60000 META {long}"));
    refused.assert_error("TOOMANY", "dlock.max-memory-percent");
    assert_eq!(server.run("DLOCK.CHECK other alice").int(), fence);
    assert_eq!(server.run("DLOCK.RELEASE other alice DONE 60000 META text").int(), 1);
    assert_eq!(server.run("DLOCK.RELEASE job alice DONE 60000 META text").int(), 1, "again");
}

/// Beside its text, a mark holds its maker's name, a fence and a moment.
#[apply(on_one_server)]
fn a_mark_takes_little_more_memory_than_a_plain_key_with_its_text(kind: Kind) {
    const KEYS: usize = 100_000;
    const TEXT: &str = "finished_with_exit_code_0_on_web-2";
    let growth = |requests: &dyn Fn(usize) -> Vec<String>| {
        let server = Server::start(kind);
        server.run("CONFIG SET slowlog-log-slower-than -1");
        let before = server.settled_memory();
        let answers = server.client().pipeline((0..KEYS).flat_map(requests));
        assert!(!answers.iter().any(|answer| answer.is_error()));
        server.settled_memory() - before
    };
    let plain = growth(&|n| vec![format!("SET job{n} {TEXT} PX 86400000")]);
    let marks = growth(&|n| {
        let release = format!("DLOCK.RELEASE job{n} alice DONE 86400000 META {TEXT}");
        vec![format!("DLOCK.ACQUIRE job{n} alice 600000"), release]
    });
    let more = (marks - plain) / KEYS as i64;
    assert!(more < 80, "{marks} bytes for {KEYS} marks, {plain} for as many plain keys");
}
