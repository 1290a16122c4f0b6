//! The holder alone leaves a lock done, and an error leaves it held.

use harness::{Kind, Server, apply, bytes, eventually, on_one_server, on_two_servers};

use super::{assert_done, leave_done, mark, read};

#[apply(on_one_server)]
fn a_request_that_is_refused_leaves_the_lock_held(kind: Kind) {
    let server = Server::start(kind);
    let fence = server.run("DLOCK.ACQUIRE job alice 60000 META before").int();
    let _bob = server.waiter("DLOCK.ACQUIRE job bob 60000 WAIT 0");
    let (traces, picture) = (server.traces(), server.pictures());
    let long = format!("DONE 5 META {}", "m".repeat(1025));
    for (options, code, words) in [
        ("DONE", "ERR", "DONE"),
        ("DONE -1", "ERR", "34560000000"),
        ("DONE +1", "ERR", "'+1'"),
        ("DONE 01", "ERR", "'01'"),
        ("DONE 1.5", "ERR", "'1.5'"),
        ("DONE 34560000001", "ERR", "'34560000001'"),
        ("DONE 99999999999999999999", "ERR", "DONE"),
        ("DONE 5 DONE 5", "ERR", "DONE"),
        ("DONE 5 FENCE", "ERR", "FENCE"),
        ("DONE 5 FENCE 0", "ERR", "FENCE"),
        ("DONE 5 FENCE 9007199254740992", "ERR", "9007199254740991"),
        ("DONE 5 FENCE 9007199254740991", "TOOFAR", "ten minutes"),
        ("DONE 5 FENCE 5 FENCE 5", "ERR", "FENCE"),
        ("DONE 5 META", "ERR", "META"),
        ("DONE 5 META a META b", "ERR", "META"),
        (&long, "ERR", "1024"),
        ("META text", "ERR", "DONE"),
        ("FENCE 5", "ERR", "DONE"),
        ("FINAL FENCE 5 META text", "ERR", "DONE"),
        ("DONE 5 AGAIN 5", "ERR", "AGAIN"),
        ("FINAL DONE 34560000001", "ERR", "DONE"),
    ] {
        server.run(&format!("DLOCK.RELEASE job alice {options}")).assert_error(code, words);
        assert_eq!((server.traces(), server.pictures()), (traces.clone(), picture.clone()));
    }
    assert_eq!(server.run("DLOCK.ACQUIRE job alice 60000").int(), fence, "nothing was FINAL");
}

#[apply(on_one_server)]
fn the_longest_time_and_the_longest_text_are_kept(kind: Kind) {
    let server = Server::start(kind);
    let meta: Vec<u8> = (0..1024).map(|n| n as u8).collect();
    let fence = server.run("DLOCK.ACQUIRE job alice 60000").int();
    let request =
        bytes!["DLOCK.RELEASE", "job", "alice", "meta", &meta, "done", "34560000000", "final"];
    assert_eq!(server.client().run_args(&request).int(), 1);
    assert_eq!(mark(&server, "job").1["meta"].bytes(), meta);
    let (left, by) = read(&server.run("DLOCK.ACQUIRE job bob 60000"));
    assert!(by == fence && left <= 34_560_000_000 && left > 34_559_000_000, "{left}");
}

#[apply(on_two_servers)]
fn a_release_that_comes_again_gets_its_answer_again_and_changes_nothing(kind: Kind) {
    let mut server = Server::start(kind);
    leave_done(&mut server.client(), "job", "60000 META first");
    let before = mark(&server, "job");
    server.run("SAVE");
    for life in 1..=2 {
        let release = |words: &str| server.run(&format!("DLOCK.RELEASE job {words}")).int();
        assert_eq!(release("alice DONE 60000 META first"), 1, "in life {life}");
        assert_eq!(release("alice DONE 600000 META later"), 1, "in life {life}");
        for other in ["bob DONE 60000", "bob", "alice", "alice DONE 0"] {
            assert_eq!(release(other), 0, "{other} in life {life}");
        }
        assert_eq!(mark(&server, "job"), before, "in life {life}");
        assert_eq!(server.info_number("dlock", "dlock_dones"), i64::from(life == 1));
        server.restart();
    }
    // The time is over: it has not done the work another time.
    server.run("PEXPIRE job 1");
    eventually("the time is over", || server.run("EXISTS job").int() == 0);
    assert_eq!(server.run("DLOCK.RELEASE job alice DONE 60000 META first").int(), 0);
    assert_eq!(server.run("EXISTS job").int(), 0);
}

#[apply(on_one_server)]
fn a_token_can_be_used_up_by_the_same_release(kind: Kind) {
    let server = Server::start(kind);
    let fence = server.run("DLOCK.ACQUIRE job alice 60000").int();
    assert_eq!(server.run("DLOCK.RELEASE job alice FINAL DONE 60000").int(), 1);
    assert_done(&server, "job", fence);
    server.run("DEL job");
    assert_eq!(server.run("DLOCK.ACQUIRE job alice 60000").code(), "FINAL");
    assert_eq!(server.run("DLOCK.RELEASE job bob DONE 60000 FINAL").int(), 0);
    assert_eq!(server.run("DLOCK.ACQUIRE job bob 60000").code(), "FINAL");
    assert!(server.run("DLOCK.ACQUIRE job carol 60000").int() > fence);
}

#[apply(on_two_servers)]
fn a_mark_does_not_end_with_its_makers_connection_nor_does_it_need_the_key(kind: Kind) {
    let server = Server::start(kind);
    let mut alice = server.client();
    let fence = alice.run("DLOCK.ACQUIRE job alice 60000 EPHEMERAL").int();
    let id = alice.id();
    assert_eq!(alice.run("DLOCK.RELEASE job alice DONE 60000").int(), 1);
    alice.close();
    server.until_gone(id);
    assert_done(&server, "job", fence);
}
