//! DLOCK.ACQUIRE … SHARED: many readers or one writer, and neither starves.

use harness::{Kind, Server, Value, apply, eventually, on_every_server};

#[apply(on_every_server)]
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

#[apply(on_every_server)]
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

#[apply(on_every_server)]
fn a_reader_queues_behind_a_waiting_writer(kind: Kind) {
    let server = Server::start(kind);
    server.run("DLOCK.ACQUIRE job r1 60000 SHARED");
    let mut writer = server.waiter("DLOCK.ACQUIRE job writer 60000 WAIT 0");
    assert!(server.run("DLOCK.ACQUIRE job r2 60000 SHARED").is_null());
    let mut r3 = server.waiter("DLOCK.ACQUIRE job r3 60000 WAIT 0 SHARED");
    assert_eq!(server.waiters("job"), ["writer", "r3"]);

    server.run("DLOCK.RELEASE job r1");
    assert!(writer.recv().int() > 0);
    assert!(!r3.has_answer());
    server.run("DLOCK.RELEASE job writer");
    assert!(r3.recv().int() > 0);
}

#[apply(on_every_server)]
fn a_writer_gets_the_lock_when_the_last_share_has_ended(kind: Kind) {
    let server = Server::start(kind);
    server.run("DLOCK.ACQUIRE job r1 60000 SHARED");
    server.run("DLOCK.ACQUIRE job r2 100 SHARED");
    let mut writer = server.waiter("DLOCK.ACQUIRE job writer 60000 WAIT 0");
    server.run("DLOCK.RELEASE job r1");
    // The last of them ends by its lease.
    assert!(writer.recv().int() > 0);
    assert_eq!(server.holders("job"), ["writer"]);
}

#[apply(on_every_server)]
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

#[apply(on_every_server)]
fn readers_behind_a_writer_are_served_when_it_gives_up(kind: Kind) {
    let server = Server::start(kind);
    for (round, way) in ["time-out", "release", "disconnect", "kill"].iter().enumerate() {
        let key = format!("job{round}");
        server.run(&format!("DLOCK.ACQUIRE {key} r1 60000 SHARED"));
        let time = if *way == "time-out" { 100 } else { 0 };
        let mut writer = server.client();
        let id = writer.id();
        let request = format!("DLOCK.ACQUIRE {key} writer 60000 WAIT {time}");
        // Behind a time-out that may come early, nothing but the answers is awaited.
        writer.send(&request);
        let mut r2 = server.client();
        if time == 0 {
            server.until_blocked(1);
        }
        r2.send(&format!("DLOCK.ACQUIRE {key} r2 60000 SHARED WAIT 0"));
        if time == 0 {
            server.until_blocked(2);
        }
        match *way {
            "time-out" => assert!(writer.recv().is_null()),
            "release" => {
                let release = format!("DLOCK.RELEASE {key} writer");
                assert_eq!(server.run(&release).int(), 0);
                assert!(writer.recv().is_null());
            }
            "disconnect" => writer.close(),
            _ => assert_eq!(server.run(&format!("CLIENT KILL ID {id}")), Value::Int(1)),
        }
        assert!(r2.recv().int() > 0, "{way}");
    }
    assert_eq!(server.node("waiters").int(), 0);
}

#[apply(on_every_server)]
fn shares_end_each_at_its_own_time(kind: Kind) {
    let server = Server::start(kind);
    server.run("DLOCK.ACQUIRE job r1 50 SHARED");
    server.run("DLOCK.ACQUIRE job r2 60000 SHARED");
    eventually("the short share ends", || server.holders("job") == ["r2"]);
    assert_eq!(server.run("DLOCK.RELEASE job r1").int(), 0);
    assert!(server.run("DLOCK.ACQUIRE job w 60000").is_null());
}

#[apply(on_every_server)]
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
