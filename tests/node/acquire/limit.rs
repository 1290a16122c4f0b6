//! DLOCK.ACQUIRE … LIMIT n: a semaphore of n permits.

use harness::{Kind, Server, apply, eventually, on_one_server};

#[apply(on_one_server)]
fn there_are_n_permits_and_not_one_more(kind: Kind) {
    let server = Server::start(kind);
    let mut last = 0;
    for permit in 1..=3 {
        let request = format!("DLOCK.ACQUIRE pool t{permit} 60000 LIMIT 3");
        let fence = server.run(&request).int();
        assert!(fence > last);
        last = fence;
    }
    assert!(server.run("DLOCK.ACQUIRE pool t4 60000 LIMIT 3").is_null());
    let pool = server.run("DLOCK.INSPECT pool");
    assert_eq!(pool.at("mode").text(), "limit");
    assert_eq!(pool.at("limit").int(), 3);
    assert_eq!(server.holders("pool").len(), 3);
    assert_eq!(server.run("DLOCK.RELEASE pool t2").int(), 1);
    assert!(server.run("DLOCK.ACQUIRE pool t4 60000 LIMIT 3").int() > last);
}

#[apply(on_one_server)]
fn another_number_of_permits_is_an_error_while_one_is_held(kind: Kind) {
    let server = Server::start(kind);
    server.run("DLOCK.ACQUIRE pool t1 60000 LIMIT 3");
    let before = server.traces();
    for limit in ["1", "2", "4", "65535"] {
        for wait in ["", "WAIT 0"] {
            let request = format!("DLOCK.ACQUIRE pool t2 60000 LIMIT {limit} {wait}");
            let refused = server.run(&request);
            assert_eq!(refused.code(), "OTHERMODE", "{request}");
            let words = refused.error();
            assert!(words.to_uppercase().contains("LIMIT"), "{words}");
            assert!(words.contains(limit) && words.contains('3'), "{words}");
        }
    }
    assert_eq!(server.traces(), before);
    server.run("DLOCK.RELEASE pool t1");
    assert!(server.run("DLOCK.ACQUIRE pool t2 60000 LIMIT 4").int() > 0);
}

#[apply(on_one_server)]
fn there_may_be_65535_permits(kind: Kind) {
    let server = Server::start(kind);
    let mut client = server.client();
    for batch in 0..5 {
        for permit in batch * 13_107..(batch + 1) * 13_107 {
            client.send(&format!("DLOCK.ACQUIRE pool t{permit} 600000 LIMIT 65535"));
        }
        for _ in 0..13_107 {
            assert!(client.recv().int() > 0);
        }
    }
    let before = server.traces();
    assert_eq!(before.leases, 65_535);
    let refused = client.run("DLOCK.ACQUIRE pool another 600000 LIMIT 65535");
    assert!(refused.is_null());
    assert_eq!(server.traces(), before);
    // With this many leases, the end of one still serves a waiter at once.
    let mut waiter = server.waiter("DLOCK.ACQUIRE pool waiter 600000 LIMIT 65535 WAIT 0");
    assert_eq!(client.run("DLOCK.RELEASE pool t65534").int(), 1);
    assert!(waiter.recv().int() > 0);
    assert_eq!(client.run("DLOCK.BREAK pool").int(), 65_535);
    eventually("nothing is left", || server.run("DBSIZE").int() == 0);
}
