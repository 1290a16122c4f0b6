//! Every waiter and every request gets DONE until the completion record expires.

use harness::{Kind, Server, apply, eventually, on_one_server, on_two_servers};

use super::{leave_done, read};

#[apply(on_two_servers)]
fn a_transaction_and_a_script_leave_a_lock_done_and_hear_that_it_is(kind: Kind) {
    let server = Server::start(kind);
    let mut bob = server.client();
    for key in ["multi", "script"] {
        let fence = server.run(&format!("DLOCK.ACQUIRE {key} alice 60000")).int();
        server.block(&mut bob, &format!("DLOCK.ACQUIRE {key} bob 60000 WAIT 0"));
        let release = format!("DLOCK.RELEASE {key} alice DONE 60000");
        let ask = format!("DLOCK.ACQUIRE {key} carol 60000 WAIT 0 KEEP 60000");
        let (released, heard) = if key == "multi" {
            let answers = server.at_once(&[&release, &ask]);
            (answers[0].clone(), answers[1].clone())
        } else {
            let call = |words: &str| {
                let script = "return redis.pcall(unpack(ARGV))";
                let words = words.split(' ');
                let args: Vec<&str> = ["EVAL", script, "1", key].into_iter().chain(words).collect();
                server.client().run_args(&args)
            };
            (call(&release), call(&ask))
        };
        assert_eq!(released.int(), 1, "{key}");
        assert_eq!((read(&heard).1, read(&bob.recv()).1), (fence, fence), "{key}");
    }
}

#[apply(on_two_servers)]
fn when_the_time_is_over_the_lock_is_free_though_the_server_has_not_looked(kind: Kind) {
    let (primary, replica) = Server::pair(kind);
    for active in ["1", "0"] {
        primary.run(&format!("DEBUG SET-ACTIVE-EXPIRE {active}"));
        let fence = leave_done(&mut primary.client(), "job", "40");
        primary.run("SET clock any PX 50");
        eventually("the time is over", || primary.run("GET clock").is_null());
        assert!(primary.run("DLOCK.INSPECT job").is_null());
        assert!(primary.run("DLOCK.CHECK job alice").is_null());
        assert!(replica.run("DLOCK.INSPECT job").is_null());
        assert_eq!(primary.run("DLOCK.RELEASE job alice DONE 60000").int(), 0);
        let next = primary.run("DLOCK.ACQUIRE job bob 60000").int();
        assert!(next > fence, "{next} after {fence}");
        primary.assert_agrees_with(&replica);
        assert_eq!(replica.run("DLOCK.CHECK job bob").int(), next);
        primary.run("DLOCK.RELEASE job bob");
    }
}

/// A plain string is a lock, too, and other clients wait for it; the record comes from elsewhere.
#[apply(on_two_servers)]
fn a_waiter_for_a_plain_string_is_told_of_a_record_that_takes_its_place(kind: Kind) {
    let server = Server::start(kind);
    let fence = leave_done(&mut server.client(), "other", "60000");
    server.run("SET job text");
    let mut bob = server.waiter("DLOCK.ACQUIRE job bob 60000 WAIT 0");
    server.run("RENAME other job");
    assert_eq!(read(&bob.recv()).1, fence);
}

/// A completion record expires like a key, and a client with write access can change that.
#[apply(on_one_server)]
fn a_record_with_a_changed_expiry_says_so(kind: Kind) {
    let server = Server::start(kind);
    let fence = leave_done(&mut server.client(), "job", "60000");
    assert_eq!(server.run("PERSIST job").int(), 1);
    assert_eq!(read(&server.run("DLOCK.ACQUIRE job bob 60000")), (-1, fence));
    assert!(server.run("DLOCK.INSPECT job").at("ttl-ms").is_null());
    server.run("PEXPIRE job 5000000");
    let (left, _) = read(&server.run("DLOCK.ACQUIRE job bob 60000"));
    assert!((4_900_000..=5_000_000).contains(&left), "{left}");
}
