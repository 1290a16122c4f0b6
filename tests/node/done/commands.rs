//! Other commands at a done lock: dlock's, and the server's own.

use harness::{Kind, Server, Value, apply, eventually, on_one_server, on_two_servers};

use super::{assert_done, leave_done, record};

#[apply(on_one_server)]
fn inspect_and_tokens_show_the_last_holder_of_a_done_lock_and_no_token(kind: Kind) {
    let server = Server::build(kind).with_movable_wall_clock().start();
    let fence = server.run("DLOCK.ACQUIRE job alice 60000 META before").int();
    let id = server.holder("job")["id"].text();
    assert_eq!(server.run("DLOCK.RELEASE job alice DONE 60000000 META exit=0").int(), 1);
    server.set_wall_clock(1_000);
    for words in ["DLOCK.INSPECT job", "DLOCK.TOKENS job"] {
        for mut client in [server.client(), server.client().resp3()] {
            eventually("the clock is ahead", || client.run(words).at("done-ms").int() > 999_000);
            let lock = client.run(words);
            let (left, since) = (lock.at("ttl-ms").int(), lock.at("done-ms").int());
            assert!((59_900_000 - 1_000_000..=59_000_000).contains(&left), "{lock:?}");
            assert!((1_000_000..1_100_000).contains(&since), "{lock:?}");
            assert_eq!(lock.at("mode").text(), "done");
            assert_eq!((lock.at("id").text(), lock.at("fence").int()), (id.clone(), fence));
            assert_eq!(lock.at("meta").text(), "exit=0");
            assert_eq!((lock.at("holding").int(), lock.at("waiting").int()), (0, 0));
            assert!(lock.at("holders").items().is_empty() && lock.at("waiters").items().is_empty());
            assert!(!format!("{lock:?}").contains(&format!("{:?}", b"alice")), "{lock:?}");
        }
    }
}

#[apply(on_two_servers)]
fn a_record_moves_as_any_key_and_takes_the_place_of_a_lock(kind: Kind) {
    let (primary, replica) = Server::pair(kind);
    for (way, moved) in
        [("RENAME job other", "other"), ("MOVE job 1", "job"), ("SWAPDB 0 1", "job")]
    {
        let fence = leave_done(&mut primary.client(), "job", "60000 META text");
        let before = record(&primary, "job");
        let mut bob = if way.starts_with("RENAME") {
            // The holder and the waiters of the other lock lose it, as by any other key.
            primary.run("DLOCK.ACQUIRE other holder 60000");
            Some(primary.waiter("DLOCK.ACQUIRE other bob 60000 WAIT 0"))
        } else {
            None
        };
        assert!(!primary.run(way).is_error(), "{way}");
        primary.assert_agrees_with(&replica);
        if let Some(bob) = &mut bob {
            assert_eq!(bob.recv().code(), "UNBLOCKED");
            assert!(primary.run("DLOCK.CHECK other holder").is_null());
        } else {
            // The key in the other database comes back in the same way.
            primary.run("SWAPDB 0 1");
        }
        assert_done(&primary, moved, fence);
        assert_eq!(record(&primary, moved), before, "{way}");
        primary.run("FLUSHALL");
    }
}

#[apply(on_one_server)]
fn info_counts_records_and_no_other_answers(kind: Kind) {
    let server = Server::start(kind);
    leave_done(&mut server.client(), "one", "60000");
    leave_done(&mut server.client(), "two", "60000");
    server.run("DLOCK.RELEASE two alice DONE 60000");
    server.run("DLOCK.RELEASE two bob DONE 60000");
    server.run("DLOCK.ACQUIRE held alice 60000");
    server.run("DLOCK.RELEASE held alice DONE x");
    server.run("DLOCK.RELEASE held alice DONE 0");
    let count = |name: &str| server.info_number("dlock", &format!("dlock_{name}"));
    assert_eq!((count("dones"), count("releases"), count("leases")), (2, 1, 0));
    assert_eq!((count("done_keys"), server.node("leases")), (2, Value::Int(0)));
    server.run("DLOCK.BREAK one");
    assert_eq!((count("dones"), count("done_keys")), (2, 1));
}
