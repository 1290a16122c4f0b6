//! DLOCK.RELEASE … FINAL: a token that is done.

use harness::{Kind, Server, apply, on_one_server, on_two_servers};

#[apply(on_one_server)]
fn an_acquire_that_its_final_release_has_overtaken_is_an_error(kind: Kind) {
    let server = Server::start(kind);
    assert_eq!(server.run("DLOCK.RELEASE job alice FINAL").int(), 0);
    let before = server.traces();
    for ask in ["", " WAIT 0", " KEEP 1000"] {
        let late = server.run(&format!("DLOCK.ACQUIRE job alice 1000{ask}"));
        assert_eq!(late.code(), "FINAL", "{late:?}");
    }
    assert_eq!(server.traces(), before);
    assert!(server.run("DLOCK.ACQUIRE job bob 60000").int() > 0);
    assert!(server.run("DLOCK.ACQUIRE other alice 60000").int() > 0);
}

#[apply(on_two_servers)]
fn what_is_final_here_is_a_release_and_no_more_on_a_replica_and_in_the_log(kind: Kind) {
    let mut primary = Server::build(kind).append_only().start();
    let replica = primary.replica();
    primary.run("DLOCK.ACQUIRE job alice 60000");
    primary.run("DLOCK.RELEASE job alice FINAL");
    primary.until_followed_by(&replica);
    assert!(replica.run("DLOCK.CHECK job alice").is_null());
    primary.restart();
    assert!(primary.run("DLOCK.CHECK job alice").is_null());
    assert!(primary.run("DLOCK.ACQUIRE job alice 60000").int() > 0, "about progress, not safety");
}
