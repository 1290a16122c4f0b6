//! RESTORE of a DUMP brings the lock with its leases at full length. Any other payload is refused or becomes
//! a sound lock, and the server goes on running.

use std::fs;
use std::time::Instant;

use harness::{
    Client, Kind, Payload, Picture, Server, Value, apply, bytes, eventually, on_every_server,
    on_one_server, on_two_servers,
};

/// Locks worth storing, by their keys.
const LOCKS: [(&str, &[&str]); 4] = [
    ("one", &["alice 60000 META some-text"]),
    ("shared", &["alice 60000 SHARED", "bob 70000 SHARED META m", "carol 600000 SHARED"]),
    ("limit", &["alice 60000 LIMIT 300", "bob 60000 LIMIT 300 EPHEMERAL"]),
    ("plain", &["t 1"]),
];

/// A server with those locks, the DUMP of each, and the client that took them.
fn stored(kind: Kind) -> (Server, Client, Vec<(String, Payload, Picture)>) {
    let server = Server::start(kind);
    // Else the server would compress the longer ones, and damage would mostly hit its own framing.
    server.run("CONFIG SET rdbcompression no");
    let mut client = server.client();
    let stored = LOCKS.iter().filter_map(|(key, holders)| {
        // In one transaction, for one of the leases is short.
        let steps = holders.iter().map(|holder| format!("DLOCK.ACQUIRE {key} {holder}"));
        client.run("MULTI");
        let acquired: Vec<String> = steps.collect();
        for step in &acquired {
            client.run(step);
        }
        client.run(&format!("DLOCK.TOKENS {key}"));
        client.run(&format!("DUMP {key}"));
        let answers = client.run("EXEC");
        let [.., inspect, dump] = answers.items() else { panic!("{answers:?}") };
        let picture = Picture::read(inspect)?;
        Some((key.to_string(), Payload::read(dump), picture))
    });
    let stored = stored.collect();
    (server, client, stored)
}

#[track_caller]
fn restore(client: &mut Client, key: &str, payload: &Payload) -> harness::Value {
    client.run_args(&[b"RESTORE", key.as_bytes(), b"0", &payload.bytes()[..], b"REPLACE"])
}

#[apply(on_every_server)]
fn a_dumped_lock_is_restored_to_any_name_with_its_leases_at_full_length(kind: Kind) {
    let (_server, mut client, stored) = stored(kind);
    for (key, payload, picture) in stored {
        for (db, name) in [("0", "another"), ("1", &key), ("1", "another")] {
            client.run(&format!("SELECT {db}"));
            let restored = Instant::now();
            assert_eq!(restore(&mut client, name, &payload).text(), "OK");
            if key == "plain" {
                continue;
            }
            assert_eq!(Picture::of(&mut client, name).as_ref(), Some(&picture));
            let lock = client.run(&format!("DLOCK.TOKENS {name}"));
            let left = lock.at("holders").items()[0].at("ttl-ms").int();
            let passed = restored.elapsed().as_millis() as i64 + 1;
            assert!((60_000 - passed..=60_000).contains(&left), "{left} after {passed}");
            let fence = picture.holders["alice"].fence;
            assert_eq!(client.run(&format!("DLOCK.CHECK {name} alice")).int(), fence);
            assert_eq!(client.run(&format!("DLOCK.EXTEND {name} alice 50000")).int(), 1);
            assert_eq!(client.run(&format!("DLOCK.RELEASE {name} alice")).int(), 1);
            client.run(&format!("DEL {name}"));
        }
        client.run("SELECT 0");
    }
}

#[apply(on_two_servers)]
fn a_lock_under_a_restored_one_is_over(kind: Kind) {
    let (server, mut client, stored) = stored(kind);
    let (_, payload, picture) = &stored[1];
    for holder in ["dan 60000", "dan 60000 EPHEMERAL", "dan 60000 SHARED"] {
        client.run(&format!("DLOCK.ACQUIRE job {holder}"));
        let mut waiter = server.waiter("DLOCK.ACQUIRE job eve 60000 WAIT 0");
        let busy = client.run_args(&[b"RESTORE", &b"job"[..], b"0", &payload.bytes()]);
        assert_eq!(busy.code(), "BUSYKEY");
        assert_eq!(server.holders("job"), ["dan"]);
        assert_eq!(restore(&mut client, "job", payload).text(), "OK");
        assert_eq!(waiter.recv().code(), "UNBLOCKED");
        assert_eq!(Picture::of(&mut client, "job").as_ref(), Some(picture));
        client.run("DEL job");
    }
}

/// The server reads the payload, and discards it.
#[apply(on_every_server)]
fn a_lock_with_a_date_that_is_past_leaves_nothing_behind(kind: Kind) {
    let server = Server::start(kind);
    let mut client = server.client();
    for mode in ["", " SHARED"] {
        client.run(&format!("DLOCK.ACQUIRE job alice 600000{mode}"));
        let payload = Payload::read(&client.run("DUMP job")).bytes();
        assert_eq!(client.run("DLOCK.RELEASE job alice").int(), 1);
        // More than the module checks in one go.
        let restores =
            b"for i = 1, 300 do redis.call('RESTORE', KEYS[1], 1, ARGV[1], 'ABSTTL') end";
        client.run_args(&[b"EVAL", &restores[..], b"1", b"job", &payload]);
        assert_eq!(client.run("EXISTS job").int(), 0);
        eventually("no lease is counted", || server.node("leases").int() == 0);
    }
    assert_eq!(server.info_number("dlock", "dlock_memory"), 0);
}

#[track_caller]
fn assert_damaged(restored: Value, what: &str) {
    let refused = "ERR Bad data format";
    assert_eq!(restored, Value::Error(refused.to_owned()), "{what}");
}

/// The server goes on running with any payload, and an accepted one is a lock by all rules.
#[track_caller]
fn try_payload(server: &Server, client: &mut Client, payload: &Payload) {
    let restored = restore(client, "job", payload);
    if restored.is_error() {
        restored.assert_error("ERR", "Bad data format");
        assert_eq!(client.run("EXISTS job").int(), 0, "{payload:?}");
        return;
    }
    let lock = client.run("DLOCK.TOKENS job");
    if let Some(picture) = Picture::read(&lock) {
        let room = match picture.mode.as_str() {
            "exclusive" => 1,
            "shared" => 65_535,
            _ => picture.limit as usize,
        };
        assert!((1..=room).contains(&picture.holders.len()), "{payload:?}");
        for holder in lock.at("holders").items() {
            let token = holder.at("token").bytes().to_vec();
            assert!((1..=255).contains(&token.len()) && holder.at("meta").bytes().len() <= 1024);
            assert!((1..1 << 53).contains(&holder.at("fence").int()), "{payload:?}");
            let released = client.run_args(&[b"DLOCK.RELEASE", &b"job"[..], &token]);
            // The damage may have made the lease so short that it is over already.
            let brief = holder.at("ttl-ms").int() < 2000;
            assert!(brief || released.int() == 1, "{payload:?}");
        }
    }
    client.run("DEL job");
    assert_eq!(server.node("waiters").int(), 0);
}

#[track_caller]
fn assert_sound(server: &Server) {
    eventually("nothing is left", || {
        server.run("FLUSHALL");
        server.node("leases").int() == 0
    });
    assert!(server.run("DLOCK.ACQUIRE job alice 60000").int() > 0);
    assert_eq!(server.run("DLOCK.RELEASE job alice").int(), 1);
}

#[apply(on_one_server)]
fn a_payload_with_a_changed_byte_leaves_the_server_sound(kind: Kind) {
    let (server, mut client, stored) = stored(kind);
    for compression in ["no", "yes"] {
        server.run(&format!("CONFIG SET rdbcompression {compression}"));
        for (key, mut payload, _) in stored.clone() {
            if compression == "yes" && key != "plain" {
                payload = Payload::read(&client.run(&format!("DUMP {key}")));
            }
            // Not the first byte: it would make another of the server's own types of it.
            for at in 1..payload.body.len() {
                for bits in [0x01, 0x80] {
                    let mut body = payload.body.clone();
                    body[at] ^= bits;
                    try_payload(&server, &mut client, &payload.with_body(body));
                }
            }
        }
    }
    assert_sound(&server);
}

#[apply(on_one_server)]
fn a_payload_that_is_cut_or_too_long_leaves_the_server_sound(kind: Kind) {
    let (server, mut client, stored) = stored(kind);
    for (_, payload, _) in &stored {
        let content = payload.content();
        for at in 1..payload.body.len() {
            try_payload(&server, &mut client, &payload.with_body(payload.body[..at].to_vec()));
            let longer = [&payload.body[..at], b"\x00", &payload.body[at..]].concat();
            try_payload(&server, &mut client, &payload.with_body(longer));
        }
        for at in 0..content.len() {
            let cut = payload.with_content(1, &content[..at]);
            assert_damaged(restore(&mut client, "job", &cut), &format!("cut at {at}"));
            let longer = [&content[..at], b"\x00", &content[at..]].concat();
            try_payload(&server, &mut client, &payload.with_content(1, &longer));
        }
        let longer = [content, b"\x00"].concat();
        let longer = payload.with_content(1, &longer);
        assert_damaged(restore(&mut client, "job", &longer), "longer");
    }
    assert_sound(&server);
}

#[apply(on_one_server)]
fn a_payload_of_a_later_version_is_refused_and_the_log_says_so(kind: Kind) {
    let (server, mut client, stored) = stored(kind);
    let payload = &stored[0].1;
    let said = |version: u32| {
        let log = server.log();
        log.contains(&format!("version {version}")) && log.contains("later dlock")
    };
    let mut content = payload.content().to_vec();
    content[0] = 7;
    assert_damaged(restore(&mut client, "job", &payload.with_content(1, &content)), "version 7");
    eventually("the log tells of the content's version", || said(7));

    // The type's own version, with content of a later dlock.
    for content in [payload.content(), b"\x09anything"] {
        assert_damaged(restore(&mut client, "job", &payload.with_content(9, content)), "9");
    }
    let unknown = [&payload.with_content(8, b"").body[..10], b"\x02\x07\x00"].concat();
    assert_damaged(restore(&mut client, "job", &payload.with_body(unknown)), "8");
    eventually("the log tells of the type's versions", || said(9) && said(8));
    assert_eq!(server.run("EXISTS job").int(), 0);
    assert_sound(&server);
}

#[apply(on_two_servers)]
fn very_many_that_a_script_restores_and_deletes_leave_nothing_behind(kind: Kind) {
    let server = Server::start(kind);
    let mut client = server.client();
    client.run("DLOCK.ACQUIRE job alice 60000");
    let script = "local payload = redis.call('DUMP', KEYS[1])
        for n = 1, 3000 do redis.call('RESTORE', 'copy' .. n, 0, payload) end
        for n = 1, 2999 do redis.call('DEL', 'copy' .. n) end
        return redis.call('DBSIZE')";
    assert_eq!(client.run_args(&["EVAL", script, "1", "job"]).int(), 2);
    eventually("only two are left", || server.node("leases").int() == 2);
    assert_eq!(server.run("DLOCK.RELEASE copy3000 alice").int(), 1);
    assert_eq!(server.run("DLOCK.RELEASE job alice").int(), 1);
    assert_eq!(server.info_number("dlock", "dlock_memory"), 0);
}

#[apply(on_two_servers)]
fn a_lock_with_a_longer_lease_is_not_restored_and_the_log_says_why(kind: Kind) {
    let server = Server::start(kind);
    server.run("DLOCK.ACQUIRE job alice 60001 SHARED");
    server.run("DLOCK.ACQUIRE job bob 1000 SHARED");
    let payload = server.run("DUMP job").bytes().to_vec();
    let restore = bytes!["RESTORE", "copy", "0", &payload];
    server.run("CONFIG SET dlock.max-ttl 60000");
    let before = server.traces();
    server.client().run_args(&restore).assert_error("ERR", "Bad data format");
    assert_eq!(server.traces(), before);
    let why = "its lease is longer than dlock.max-ttl allows here";
    assert!(server.log().contains(why), "{}", server.log());
    server.run("CONFIG SET dlock.max-ttl 60001");
    assert_eq!(server.client().run_args(&restore).text(), "OK");
    assert_eq!(server.holders("copy"), ["alice", "bob"]);
}

#[apply(on_two_servers)]
fn a_longer_lease_that_cannot_be_written_does_not_arrive_and_leaves_no_trace(kind: Kind) {
    let source = Server::start(kind);
    source.run("DLOCK.ACQUIRE job alice 600000");
    let payload = Payload::read(&source.run("DUMP job")).bytes();
    let server = Server::start(kind);
    server.run("DLOCK.ACQUIRE held alice 60000");
    let in_the_way = server.state_file().with_extension("state.tmp");
    fs::create_dir(&in_the_way).unwrap();
    let before = server.traces();
    let restored = server.client().run_args(&[&b"RESTORE"[..], b"job", b"0", &payload]);
    restored.assert_error("ERR", "Bad data format");
    assert_eq!(server.traces(), before);
    assert!(server.run("DLOCK.ACQUIRE free bob 1000").int() > 0);
    fs::remove_dir(&in_the_way).unwrap();
}
