//! DLOCK.HOT: the most contended keys.

use harness::{Kind, Server, Value, apply, eventually, on_one_server, on_two_servers};

/// The row of a key, if it has one.
fn row(server: &Server, key: &str) -> Option<Value> {
    let all = server.run("DLOCK.HOT 128");
    all.items().iter().find(|row| row.at("key").text() == key).cloned()
}

#[apply(on_one_server)]
fn a_key_shows_its_waits_and_what_came_of_them(kind: Kind) {
    let server = Server::start(kind);
    server.run("DLOCK.ACQUIRE job alice 60000");
    server.run("DLOCK.ACQUIRE job carol 60000");
    let mut bob = server.waiter("DLOCK.ACQUIRE job bob 60000 WAIT 0");
    let shown = |field: &str| row(&server, "job").map_or(-1, |row| row.at(field).int());
    eventually("it is waited for", || shown("waited-ms") >= 100);
    assert_eq!((shown("waiting"), shown("denials"), shown("handovers")), (1, 1, 0));
    assert!(shown("longest-wait-ms") >= 100);
    server.run("DLOCK.RELEASE job alice");
    bob.recv();
    assert_eq!((shown("waiting"), shown("handovers"), shown("grants")), (0, 1, 1));
    let waited = (shown("waited-ms"), shown("longest-wait-ms"));
    assert!(waited.0 >= 100 && waited.1 >= 100 && waited.1 <= waited.0, "{waited:?}");
    let whole = row(&server, "job").unwrap();
    let names: Vec<String> = whole.items().iter().step_by(2).map(Value::text).collect();
    assert_eq!(names, FIELDS);
    assert_eq!((whole.at("db").int(), whole.at("key-bytes").int()), (0, 3));
}

/// The fields of a row, in reading order.
const FIELDS: [&str; 9] = [
    "key",
    "key-bytes",
    "db",
    "waited-ms",
    "longest-wait-ms",
    "waiting",
    "grants",
    "handovers",
    "denials",
];

#[apply(on_one_server)]
fn keys_of_any_bytes_and_any_length_are_listed_in_bounded_memory(kind: Kind) {
    let server = Server::start(kind);
    let mut client = server.client();
    let long = [b"\x1b[2J<b>\r\n\xff".repeat(1000), vec![0; 6_000]].concat();
    for token in ["alice", "bob"] {
        client.run_args(&[b"DLOCK.ACQUIRE", &long[..], token.as_bytes(), b"60000"]);
    }
    let all = server.run("DLOCK.HOT");
    let shown = &all.items()[0];
    assert_eq!(shown.at("key").bytes(), &long[..256]);
    assert_eq!(shown.at("key-bytes").int() as usize, long.len());
    // The key's queue is found all the same.
    let mut waiter = server.client();
    waiter.send_args(&[b"DLOCK.ACQUIRE", &long[..], b"carol", b"60000", b"WAIT", b"0"]);
    server.until_blocked(1);
    let waiting = || server.run("DLOCK.HOT").items()[0].at("waiting").int();
    eventually("its waiter is counted", || waiting() == 1);
}

#[apply(on_two_servers)]
fn a_right_of_its_own_lets_a_user_see_it(kind: Kind) {
    let server = Server::start(kind);
    let login = |name: &str, rules: &str| {
        server.run(&format!("ACL SETUSER {name} on >secret {rules}"));
        let mut client = server.client();
        client.run(&format!("AUTH {name} secret"));
        client
    };
    let mut reader = login("reader", "~app:* +@read");
    let mut watcher = login("watcher", "+dlock.hot +dlock.node");
    assert_eq!(reader.run("DLOCK.HOT").code(), "NOPERM");
    assert!(!watcher.run("DLOCK.HOT").is_error());
}

#[apply(on_one_server)]
fn how_many_is_a_number_up_to_128(kind: Kind) {
    let server = Server::start(kind);
    for command in ["DLOCK.HOT"] {
        for n in ["0", "129", "-1", "x"] {
            server.run(&format!("{command} {n}")).assert_error("ERR", "from 1 to 128");
        }
        server.run(&format!("{command} 1 2")).assert_error("ERR", "arguments");
    }
}
