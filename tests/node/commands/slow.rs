//! DLOCK.SLOW: the last slow waits and long holds.

use std::time::{SystemTime, UNIX_EPOCH};

use harness::{Kind, Server, Value, apply, eventually, on_one_server};

fn entries(server: &Server) -> Vec<Value> {
    server.run("DLOCK.SLOW 128").items().to_vec()
}

fn count(server: &Server, name: &str) -> i64 {
    server.info_number("dlock", &format!("dlock_{name}"))
}

/// One hands the lock to another, who has waited for this many ms.
fn hand_over(server: &Server, waited: i64) {
    server.run("DLOCK.ACQUIRE job alice 60000 META host=a");
    let mut bob = server.waiter("DLOCK.ACQUIRE job bob 60000 WAIT 0 META host=b");
    eventually("bob has waited", || {
        let lock = server.run("DLOCK.INSPECT job");
        lock.at("waiters").items()[0].at("waited-ms").int() >= waited
    });
    server.run("DLOCK.RELEASE job alice");
    bob.recv();
    server.run("DLOCK.RELEASE job bob");
}

#[apply(on_one_server)]
fn nothing_is_noted_unless_somebody_wants_it(kind: Kind) {
    let server = Server::start(kind);
    for setting in ["slow-wait-ms", "long-hold-ms"] {
        assert_eq!(server.run(&format!("CONFIG GET dlock.{setting}")).items()[1].text(), "0");
    }
    hand_over(&server, 50);
    assert!(entries(&server).is_empty());
    assert_eq!((count(&server, "slow_waits"), count(&server, "long_holds")), (0, 0));
}

#[apply(on_one_server)]
fn a_slow_wait_says_who_waited_for_whom_how_long_and_when(kind: Kind) {
    let server = Server::start(kind);
    server.run("CONFIG SET dlock.slow-wait-ms 50");
    hand_over(&server, 50);
    let [entry] = &entries(&server)[..] else { panic!("{:?}", entries(&server)) };
    let names: Vec<String> = entry.items().iter().step_by(2).map(Value::text).collect();
    assert_eq!(names, FIELDS);
    assert_eq!((entry.at("number").int(), entry.at("what").text()), (0, "wait".to_owned()));
    assert_eq!((entry.at("key").text(), entry.at("db").int()), ("job".to_owned(), 0));
    assert_eq!(entry.at("meta").text(), "host=b");
    assert_eq!(entry.at("holder-meta").text(), "host=a");
    assert_eq!(entry.at("holder-id").text(), "4da10dd6");
    assert!(entry.at("ms").int() >= 50);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as i64;
    let ago = now - entry.at("unix-ms").int();
    assert!((-1_000..60_000).contains(&ago), "{ago}");
    assert_eq!(count(&server, "slow_waits"), 1);
}

const FIELDS: [&str; 10] =
    ["number", "what", "unix-ms", "ms", "key", "db", "id", "meta", "holder-id", "holder-meta"];

#[apply(on_one_server)]
fn a_long_hold_is_noted_when_it_ends_however_it_does(kind: Kind) {
    let server = Server::start(kind);
    server.run("CONFIG SET dlock.long-hold-ms 30");
    let held = |key: &str| {
        let held = || server.holder(key)["held-ms"].int() >= 30;
        eventually("it is held for a while", held);
    };
    server.run("DLOCK.ACQUIRE job a 60000 META m");
    held("job");
    server.run("DLOCK.RELEASE job a");
    server.run("DLOCK.ACQUIRE book b 60000 SHARED META m");
    held("book");
    server.run("DLOCK.BREAK book");
    server.run("DLOCK.ACQUIRE lease c 40 META m");
    eventually("its lease ends", || entries(&server).len() == 3);
    let keys: Vec<String> = entries(&server).iter().map(|entry| entry.at("key").text()).collect();
    assert_eq!(keys, ["lease", "book", "job"]);
    for entry in entries(&server) {
        assert_eq!((entry.at("what").text(), entry.at("meta").text()), ("hold".into(), "m".into()));
        assert!(entry.at("ms").int() >= 30);
    }
    assert_eq!(count(&server, "long_holds"), 3);
}

#[apply(on_one_server)]
fn a_wait_that_ends_because_the_lock_is_gone_is_noted(kind: Kind) {
    let server = Server::start(kind);
    server.run("CONFIG SET dlock.slow-wait-ms 1");
    for (n, removal) in ["DEL job", "SET job text", "FLUSHALL"].into_iter().enumerate() {
        server.run("DEL job");
        server.run("DLOCK.ACQUIRE job alice 60000 META host=a");
        let mut bob = server.waiter("DLOCK.ACQUIRE job bob 60000 WAIT 0 META host=b");
        eventually("bob has waited", || {
            let lock = server.run("DLOCK.INSPECT job");
            lock.at("waiters").items()[0].at("waited-ms").int() >= 1
        });
        server.run(removal);
        assert_eq!(bob.recv().code(), "UNBLOCKED", "{removal}");
        let entries = entries(&server);
        assert_eq!(entries.len(), n + 1, "{removal}");
        assert_eq!(entries[0].at("what").text(), "wait-in-vain");
        assert_eq!(
            (entries[0].at("meta").text(), entries[0].at("holder-meta").text()),
            ("host=b".to_owned(), "host=a".to_owned())
        );
    }
}
