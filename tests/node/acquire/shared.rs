//! DLOCK.ACQUIRE … SHARED: many readers or one writer, and neither starves.

use harness::{Kind, Server, apply, on_one_server};

#[apply(on_one_server)]
fn readers_share_a_lock_each_with_a_fence_of_its_own(kind: Kind) {
    let server = Server::start(kind);
    let mut last = 0;
    for reader in ["r1", "r2", "r3"] {
        let fence = server.run(&format!("DLOCK.ACQUIRE job {reader} 60000 SHARED")).int();
        assert!(fence > last);
        last = fence;
        let check = server.run(&format!("DLOCK.CHECK job {reader}"));
        assert_eq!(check.int(), fence);
    }
    let mut holders = server.holders("job");
    holders.sort();
    assert_eq!(holders, ["r1", "r2", "r3"]);
    assert_eq!(server.node("leases").int(), 3);
}

#[apply(on_one_server)]
fn a_writer_is_refused_while_there_is_a_reader(kind: Kind) {
    let server = Server::start(kind);
    server.run("DLOCK.ACQUIRE job r1 60000 SHARED");
    server.run("DLOCK.ACQUIRE job r2 60000 SHARED");
    assert!(server.run("DLOCK.ACQUIRE job writer 60000").is_null());
    server.run("DLOCK.RELEASE job r1");
    assert!(server.run("DLOCK.ACQUIRE job writer 60000").is_null());
    server.run("DLOCK.RELEASE job r2");
    assert!(server.run("DLOCK.ACQUIRE job writer 60000").int() > 0);
    assert!(server.run("DLOCK.ACQUIRE job r1 60000 SHARED").is_null());
}

#[apply(on_one_server)]
fn neighbouring_readers_in_the_queue_are_served_together(kind: Kind) {
    let server = Server::start(kind);
    server.run("DLOCK.ACQUIRE job w0 60000");
    let wait = |request: &str| server.waiter(&format!("DLOCK.ACQUIRE job {request} WAIT 0"));
    let mut r1 = wait("r1 60000 SHARED");
    let mut r2 = wait("r2 60000 SHARED");
    let mut w1 = wait("w1 60000");
    let mut r3 = wait("r3 60000 SHARED");

    server.run("DLOCK.RELEASE job w0");
    let first = r1.recv().int();
    assert!(r2.recv().int() > first);
    assert!(!w1.has_answer() && !r3.has_answer());
    assert_eq!(server.waiters("job"), ["w1", "r3"]);

    server.run("DLOCK.RELEASE job r1");
    assert!(!w1.has_answer());
    server.run("DLOCK.RELEASE job r2");
    assert!(w1.recv().int() > 0);
    assert!(!r3.has_answer());
    server.run("DLOCK.RELEASE job w1");
    assert!(r3.recv().int() > 0);
}

#[apply(on_one_server)]
fn a_lock_has_at_most_65535_readers(kind: Kind) {
    let server = Server::start(kind);
    let mut client = server.client();
    for batch in 0..5 {
        let readers = batch * 13_107..(batch + 1) * 13_107;
        for reader in readers.clone() {
            client.send(&format!("DLOCK.ACQUIRE job r{reader} 600000 SHARED"));
        }
        for reader in readers {
            assert!(client.recv().int() > 0, "reader {reader}");
        }
    }
    let before = server.traces();
    assert_eq!(before.leases, 65_535);
    let refused = client.run("DLOCK.ACQUIRE job another 600000 SHARED");
    assert!(refused.is_null() || refused.code() == "TOOMANYHOLDERS", "{refused:?}");
    assert_eq!(server.traces(), before);
    assert_eq!(client.run("DLOCK.RELEASE job r7").int(), 1);
    assert!(client.run("DLOCK.ACQUIRE job another 600000 SHARED").int() > 0);
}
