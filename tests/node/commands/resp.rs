//! The shapes of the replies, byte by byte, in RESP2 and RESP3.

use harness::{Client, Kind, Server, Value, apply, on_two_servers};

/// Asserts the beginning of an answer as it goes over the wire, and that nothing comes after it.
#[track_caller]
fn exact(client: &mut Client, request: &str, answer: &str) {
    client.send(request);
    let got = client.recv_raw(answer.len());
    assert_eq!(String::from_utf8_lossy(&got), answer, "{request}");
    client.assert_in_step();
}

#[apply(on_two_servers)]
fn simple_replies_in_both_protocols(kind: Kind) {
    let server = Server::start(kind);
    for (mut client, null) in [(server.client(), "$-1\r\n"), (server.client().resp3(), "_\r\n")] {
        let fence = client.run("DLOCK.ACQUIRE job alice 60000").int();
        let held = format!(":{fence}\r\n");
        exact(&mut client, "DLOCK.ACQUIRE job alice 60000", &held);
        exact(&mut client, "DLOCK.CHECK job alice", &held);
        exact(&mut client, "DLOCK.ACQUIRE job bob 60000", null);
        exact(&mut client, "DLOCK.ACQUIRE job bob 60000 WAIT 20", null);
        exact(&mut client, "DLOCK.CHECK job bob", null);
        exact(&mut client, "DLOCK.INSPECT free", null);
        exact(&mut client, "DLOCK.EXTEND job alice 60000", ":1\r\n");
        exact(&mut client, "DLOCK.EXTEND job bob 60000", ":0\r\n");
        exact(&mut client, "DLOCK.RELEASE job bob", ":0\r\n");
        exact(&mut client, "DLOCK.RELEASE job alice", ":1\r\n");
        exact(&mut client, "DLOCK.BREAK job", ":0\r\n");
    }
}

#[apply(on_two_servers)]
fn maps_are_maps_in_resp3_and_flat_arrays_in_resp2(kind: Kind) {
    let server = Server::start(kind);
    server.run("DLOCK.ACQUIRE job alice 60000 META host=a");
    let _bob = server.waiter("DLOCK.ACQUIRE job bob 60000 WAIT 0");
    server.run("SET foreign text");
    let (mut two, mut three) = (server.client(), server.client().resp3());

    for request in ["DLOCK.NODE", "DLOCK.INSPECT job", "DLOCK.INSPECT foreign", "DLOCK.TOKENS job"]
    {
        let (flat, map) = (two.run(request), three.run(request));
        assert!(matches!(flat, Value::Array(_)), "{flat:?}");
        assert!(matches!(map, Value::Map(_)), "{map:?}");
        let names = |value: &Value| value.map().into_keys().collect::<Vec<_>>();
        assert_eq!(names(&flat), names(&map));
    }
    for list in ["holders", "waiters"] {
        let flat = two.run("DLOCK.INSPECT job").at(list);
        let map = three.run("DLOCK.INSPECT job").at(list);
        assert!(matches!(flat.items()[0], Value::Array(_)), "{flat:?}");
        assert!(matches!(map, Value::Array(_)), "{map:?}");
        assert!(matches!(map.items()[0], Value::Map(_)), "{map:?}");
    }
    assert!(matches!(two.run("DLOCK.HELP"), Value::Array(_)));
    assert!(matches!(three.run("DLOCK.HELP"), Value::Array(_)));
}

#[apply(on_two_servers)]
fn a_waiter_is_answered_in_its_own_protocol(kind: Kind) {
    let server = Server::start(kind);
    server.run("DLOCK.ACQUIRE job alice 60000");
    let mut two = server.waiter("DLOCK.ACQUIRE job two 60000 WAIT 0");
    let mut three = server.client().resp3();
    server.block(&mut three, "DLOCK.ACQUIRE job three 60000 WAIT 0");
    // Withdrawn, each gets its own null.
    let mut releasing = server.client().resp3();
    releasing.run("DLOCK.RELEASE job two");
    assert_eq!(two.recv_raw(5), b"$-1\r\n");
    server.run("DLOCK.RELEASE job three");
    assert_eq!(three.recv_raw(3), b"_\r\n");
    two.assert_in_step();
    three.assert_in_step();

    server.block(&mut three, "DLOCK.ACQUIRE job three 60000 WAIT 0");
    server.run("DLOCK.RELEASE job alice");
    assert!(three.recv().int() > 0);
    three.assert_in_step();
}
