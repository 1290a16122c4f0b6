//! The options of DLOCK.ACQUIRE: FENCE, EPHEMERAL, META, and how they may be written.

use std::time::SystemTime;

use harness::{Kind, Server, apply, on_one_server};

const SECOND: i64 = 1_000_000;
const MINUTE: i64 = 60 * SECOND;

fn unix_micros() -> i64 {
    SystemTime::UNIX_EPOCH.elapsed().unwrap().as_micros() as i64
}

#[apply(on_one_server)]
fn options_come_in_any_order_and_case(kind: Kind) {
    let server = Server::start(kind);
    let spellings = [
        "SHARED WAIT 1000 FENCE 5 EPHEMERAL META text",
        "META text EPHEMERAL FENCE 5 WAIT 1000 SHARED",
        "meta text ephemeral fence 5 wait 1000 shared",
        "Ephemeral Shared Meta text Wait 1000 Fence 5",
    ];
    for (number, options) in spellings.iter().enumerate() {
        let mut client = server.client();
        let key = format!("job{number}");
        let granted = client.run(&format!("dlock.acquire {key} alice 60000 {options}"));
        assert!(granted.int() >= 5);
        assert_eq!(server.run(&format!("DLOCK.INSPECT {key}")).at("mode").text(), "shared");
        let holder = server.holder(&key);
        assert_eq!(holder["meta"].text(), "text");
        assert_eq!(holder["ephemeral"].int(), 1);
    }
}

#[apply(on_one_server)]
fn a_refused_request_does_not_move_the_counter_to_its_proposal(kind: Kind) {
    let server = Server::start(kind);
    server.run("DLOCK.ACQUIRE job alice 60000");
    let before = server.node("fence").int();
    let proposal = unix_micros() + MINUTE;
    let request = format!("DLOCK.ACQUIRE job bob 60000 FENCE {proposal}");
    assert!(server.run(&request).is_null());
    assert_eq!(server.node("fence").int(), before);
}
