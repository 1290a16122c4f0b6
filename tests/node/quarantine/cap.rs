//! `dlock.max-ttl` limits new leases, and nothing else.

use harness::quarantine::{CRASHED, Refusal};
use harness::{Kind, Server, apply, bytes, on_one_server, on_two_servers};

const DAY: i64 = 86_400_000;

#[apply(on_one_server)]
fn a_quarantine_is_as_long_as_the_state_file_says_though_new_leases_are_shorter(kind: Kind) {
    let mut server = Server::build(kind).config(&format!("dlock.max-ttl {DAY}")).start();
    let fence = server.run(&format!("DLOCK.ACQUIRE job alice {DAY}")).int();
    server.run("CONFIG SET dlock.max-ttl 1000");
    assert_eq!(server.run("DLOCK.CHECK job alice").int(), fence, "it goes on");
    server.run("DLOCK.EXTEND job alice 1001").assert_error("TOOLONG", "1000 ms is the longest");
    server.kill();
    server.add_config("dlock.max-ttl 1000");
    server.start_again();
    let refusal = Refusal::read(&server.run("DLOCK.ACQUIRE another bob 1000"));
    assert_eq!(refusal.reason, CRASHED);
    assert!(refusal.left > DAY - DAY / 24, "{refusal:?}");
    server.leave_quarantine();
    assert!(server.run("DLOCK.ACQUIRE job bob 1000").int() > fence);
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
