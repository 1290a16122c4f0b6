//! The holder alone leaves a lock done, and an error leaves it held.

use harness::{Kind, Server, apply, eventually, on_two_servers};

use super::{assert_done, leave_done, record};

#[apply(on_two_servers)]
fn a_release_that_comes_again_gets_its_answer_again_and_changes_nothing(kind: Kind) {
    let mut server = Server::start(kind);
    leave_done(&mut server.client(), "job", "60000 META first");
    let before = record(&server, "job");
    server.run("SAVE");
    for life in 1..=2 {
        let release = |words: &str| server.run(&format!("DLOCK.RELEASE job {words}")).int();
        assert_eq!(release("alice DONE 60000 META first"), 1, "in life {life}");
        assert_eq!(release("alice DONE 600000 META later"), 1, "in life {life}");
        for other in ["bob DONE 60000", "bob", "alice", "alice DONE 0"] {
            assert_eq!(release(other), 0, "{other} in life {life}");
        }
        assert_eq!(record(&server, "job"), before, "in life {life}");
        assert_eq!(server.info_number("dlock", "dlock_dones"), i64::from(life == 1));
        server.restart();
    }
    // The window is over, and the holder is refused: its token no longer holds.
    server.run("PEXPIRE job 1");
    eventually("the time is over", || server.run("EXISTS job").int() == 0);
    assert_eq!(server.run("DLOCK.RELEASE job alice DONE 60000 META first").int(), 0);
    assert_eq!(server.run("EXISTS job").int(), 0);
}

#[apply(on_two_servers)]
fn a_record_does_not_end_with_its_makers_connection_nor_does_it_need_the_key(kind: Kind) {
    let server = Server::start(kind);
    let mut alice = server.client();
    let fence = alice.run("DLOCK.ACQUIRE job alice 60000 EPHEMERAL").int();
    let id = alice.id();
    assert_eq!(alice.run("DLOCK.RELEASE job alice DONE 60000").int(), 1);
    alice.close();
    server.until_gone(id);
    assert_done(&server, "job", fence);
}
