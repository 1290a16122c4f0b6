//! A mark that RESTORE brings is sound, or refused; and the server lives on.

use harness::{
    Client, Kind, Payload, Server, apply, bytes, eventually, on_one_server, on_two_servers,
    wall_clock,
};

use super::{assert_done, leave_done, read};

/// The longest way ahead of the clock, in µs, that a fence may have which anybody brings: ten minutes,
/// and the ten seconds after which that number grows.
const FARTHEST: i64 = 610_000_000;

fn restore(client: &mut Client, payload: &Payload) -> bool {
    let bytes = payload.bytes();
    let answer = client.run_args(&bytes!["RESTORE", "bent", "60000", &bytes]);
    !answer.is_error()
}

#[apply(on_two_servers)]
fn a_damaged_payload_is_refused_or_makes_a_sound_mark(kind: Kind) {
    let server = Server::start(kind);
    let mut client = server.client();
    let fence = leave_done(&mut client, "job", "600000 META text");
    let whole = Payload::read(&server.run("DUMP job"));
    let mut bodies: Vec<Vec<u8>> = (0..whole.body.len()).map(|n| whole.body[..n].into()).collect();
    bodies.push([&whole.body[..], b"\0"].concat());
    for bit in 0..whole.body.len() * 8 {
        let mut body = whole.body.clone();
        body[bit / 8] ^= 1 << (bit % 8);
        bodies.push(body);
    }
    assert!(restore(&mut client, &whole), "what is whole is accepted");
    client.run("DEL bent");
    for body in bodies {
        // Cut, the server may take its own frame for a number of the module's.
        let accepted = restore(&mut client, &whole.with_body(body.clone()));
        if accepted && client.run("TYPE bent").text() == "dlockdone" {
            let (left, by) = read(&client.run("DLOCK.ACQUIRE bent bob 60000"));
            assert!((1..=60_000).contains(&left), "{body:?}: {left}");
            assert!((1..wall_clock::micros(0) + FARTHEST).contains(&by), "{body:?}: {by}");
            let lock = client.run("DLOCK.INSPECT bent");
            assert_eq!((lock.at("mode").text().as_str(), lock.at("fence").int()), ("done", by));
            assert!(lock.at("done-ms").int() >= 0 && lock.at("meta").bytes().len() <= 1024);
            assert!(!client.run("DUMP bent").is_null());
        }
        client.run("DEL bent");
    }
    assert_done(&server, "job", fence);
    assert_eq!(server.node("leases").int(), 0);
    assert_eq!(server.log().matches("crashed by signal").count(), 0);
}

#[apply(on_one_server)]
fn a_payload_of_another_version_is_refused(kind: Kind) {
    let server = Server::start(kind);
    let mut client = server.client();
    leave_done(&mut client, "job", "600000 META text");
    let whole = Payload::read(&server.run("DUMP job"));
    let own = whole.id() & 0x3ff;
    for version in [own + 1, own + 2, 1023].into_iter().chain(0..own) {
        let id = (whole.id() & !0x3ff) | version;
        let mut body = whole.body.clone();
        body[2..10].copy_from_slice(&id.to_be_bytes());
        assert!(!restore(&mut client, &whole.with_body(body)), "version {version}, not {own}");
        assert_eq!(client.run("EXISTS bent").int(), 0);
    }
}

/// Whoever may write one key must not move the fences of the node, nor lock its own key for ever.
#[apply(on_one_server)]
fn a_restored_fence_far_ahead_of_the_clock_is_refused(kind: Kind) {
    let server = Server::start(kind);
    let fast = Server::build(kind).with_movable_wall_clock().start();
    fast.set_wall_clock(100_000);
    let ahead = wall_clock::micros(99_990);
    fast.run("DLOCK.ACQUIRE job alice 600000");
    let release = format!("DLOCK.RELEASE job alice DONE 600000 FENCE {ahead}");
    eventually("the clock is ahead", || fast.run(&release).is_int());
    let copy = fast.run("DUMP job");
    let restore = bytes!["RESTORE", "copy", "60000", copy.bytes()];
    server.client().run_args(&restore).assert_error("ERR", "Bad data format");
    assert_eq!(server.run("DBSIZE").int(), 0);
    assert!(server.run("DLOCK.ACQUIRE copy bob 60000").int() < ahead);
    assert_eq!(fast.client().run_args(&restore).text(), "OK");
}
