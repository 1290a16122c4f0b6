//! `dlock.max-ttl` limits new leases, and nothing else.

use harness::{Kind, Server, apply, bytes, on_two_servers};

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
