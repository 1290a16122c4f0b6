//! Locks that are moved from outside, to another name or database: the lease does not travel. The
//! new place is free at once, and the key that arrived there goes soon.

use harness::{Kind, Server, apply, eventually, on_every_server, on_two_servers};

use super::removals::Scene;

const HOLDERS: [&str; 4] = ["", "EPHEMERAL META m", "SHARED", "LIMIT 3"];

#[apply(on_every_server)]
fn a_lock_that_is_renamed_is_over_and_the_new_name_is_free(kind: Kind) {
    let mut scene = Scene::new(kind);
    for renaming in ["RENAME job other", "RENAMENX job other"] {
        for holders in HOLDERS {
            scene.set(holders, 60_000);
            assert!(!scene.primary.run(renaming).is_error());
            assert!(scene.primary.run("DLOCK.INSPECT other").is_null(), "{renaming}");
            assert!(scene.primary.run("DLOCK.CHECK other alice").is_null(), "{renaming}");
            eventually("the renamed key goes", || scene.primary.run("EXISTS other").int() == 0);
            scene.assert_over(renaming);
            assert_eq!(scene.replica.run("EXISTS job other").int(), 0, "{renaming}");
        }
    }
}

#[apply(on_two_servers)]
fn a_renamed_lock_can_be_taken_at_its_new_name_at_once(kind: Kind) {
    let mut scene = Scene::new(kind);
    for (holders, next) in [("", ""), ("", "SHARED"), ("SHARED", "LIMIT 2"), ("LIMIT 3", "LIMIT 4")]
    {
        scene.set(holders, 60_000);
        let acquire = format!("DLOCK.ACQUIRE other eve 60000 {next}");
        let steps = [
            "MULTI",
            "RENAME job other",
            "DLOCK.RELEASE other alice",
            "DLOCK.EXTEND other alice 1000",
            &acquire,
            "EXEC",
        ];
        let answers = steps.map(|step| scene.holder.run(step));
        let results = answers[5].items();
        assert_eq!((results[1].int(), results[2].int()), (0, 0));
        assert!(results[3].int() > scene.fence, "{holders} {next}");
        scene.fence = results[3].int();
        assert_eq!(scene.primary.holders("other"), ["eve"]);
        scene.primary.assert_agrees_with(&scene.replica);
        assert_eq!(scene.primary.run("DLOCK.RELEASE other eve").int(), 1);
        scene.assert_over("RENAME");
    }
}

#[apply(on_every_server)]
fn a_lock_that_another_is_renamed_onto_is_over_as_well(kind: Kind) {
    let mut scene = Scene::new(kind);
    scene.set("", 60_000);
    scene.primary.run("DLOCK.ACQUIRE other eve 60000 EPHEMERAL");
    scene.waiters.push(scene.primary.waiter("DLOCK.ACQUIRE other fay 60000 WAIT 0"));
    scene.fence = scene.primary.node("fence").int();
    scene.primary.run("RENAME other job");
    assert!(scene.primary.run("DLOCK.CHECK job eve").is_null());
    eventually("both names are free", || scene.primary.run("EXISTS job other").int() == 0);
    scene.assert_over("RENAME");
}

#[apply(on_two_servers)]
fn a_lock_that_is_renamed_onto_its_own_name_stays(kind: Kind) {
    let mut scene = Scene::new(kind);
    scene.set("", 60_000);
    assert!(!scene.primary.run("RENAME job job").is_error());
    assert_eq!(scene.primary.holders("job"), ["alice"]);
    assert_eq!(scene.primary.run("DLOCK.RELEASE job alice").int(), 1);
    assert!(scene.waiters[0].recv().int() > scene.fence);
}

#[apply(on_every_server)]
fn a_lock_that_is_moved_is_over_and_free_in_the_other_database(kind: Kind) {
    let mut scene = Scene::new(kind);
    let mut there = scene.primary.client();
    there.run("SELECT 1");
    for holders in HOLDERS {
        scene.set(holders, 60_000);
        assert_eq!(scene.primary.run("MOVE job 1").int(), 1);
        assert!(there.run("DLOCK.INSPECT job").is_null());
        assert!(there.run("DLOCK.CHECK job alice").is_null());
        eventually("the moved key goes", || there.run("EXISTS job").int() == 0);
        scene.assert_over("MOVE");
    }
}

#[apply(on_every_server)]
fn locks_of_databases_that_are_swapped_are_over(kind: Kind) {
    let mut scene = Scene::new(kind);
    let mut there = scene.primary.client();
    there.run("SELECT 1");
    for (holders, other) in HOLDERS.into_iter().zip(["", "SHARED", "", "EPHEMERAL"]) {
        scene.set(holders, 60_000);
        there.run(&format!("DLOCK.ACQUIRE job alice 60000 {other}"));
        scene.primary.block(&mut there, "DLOCK.ACQUIRE job eve 60000 WAIT 0");
        scene.fence = scene.primary.node("fence").int();
        scene.primary.run("SWAPDB 0 1");
        assert_eq!(there.recv().code(), "UNBLOCKED");
        assert_eq!(there.run("DLOCK.RELEASE job alice").int(), 0);
        assert!(there.run("DLOCK.INSPECT job").is_null());
        eventually("the swapped keys go", || {
            there.run("EXISTS job").int() + scene.primary.run("EXISTS job").int() == 0
        });
        scene.assert_over("SWAPDB");
    }
}

#[apply(on_every_server)]
fn a_lock_that_migrates_keeps_its_lease_there_and_its_waiters_are_told(kind: Kind) {
    let mut scene = Scene::new(kind);
    let target = Server::start(kind);
    for copying in [false, true] {
        scene.set("LIMIT 3", 60_000);
        let copy = if copying { "COPY REPLACE" } else { "" };
        let migrate = format!("MIGRATE 127.0.0.1 {} job 0 5000 {copy}", target.port());
        assert_eq!(scene.primary.run(&migrate).text(), "OK");
        assert_eq!(target.holders("job"), ["alice"]);
        assert!(target.node("fence").int() >= target.holder("job")["fence"].int());
        if copying {
            assert_eq!(scene.primary.waiters("job").len(), 3);
        } else {
            scene.assert_over("MIGRATE");
        }
    }
    assert_eq!(target.run("DLOCK.RELEASE job alice").int(), 1);
    assert_eq!(target.run("DBSIZE").int(), 0);
}

#[apply(on_every_server)]
fn a_client_that_moves_a_key_stays_in_its_database(kind: Kind) {
    let scene = Scene::new(kind);
    let mut client = scene.primary.client();
    for (from, to) in [("0", "1"), ("1", "0"), ("0", "2")] {
        client.run(&format!("SELECT {from}"));
        client.run("SET text any");
        client.run("DLOCK.ACQUIRE job alice 60000");
        for key in ["text", "job"] {
            assert_eq!(client.run(&format!("MOVE {key} {to}")).int(), 1);
            client.run("SET here any");
            assert_eq!(client.run("EXISTS here text job").int(), if key == "text" { 2 } else { 1 });
        }
        let dbs = scene.primary.client().run("CLIENT LIST").text();
        let at = format!(" db={from} ");
        let line = dbs.lines().find(|line| line.contains(&format!("id={} ", client.id())));
        assert!(line.is_some_and(|line| line.contains(&at)), "{dbs}");
        scene.primary.run("FLUSHALL");
        scene.primary.assert_agrees_with(&scene.replica);
    }
}

/// Clients cannot lock such a name, and replicas hear all the same of its end.
#[apply(on_two_servers)]
fn a_lock_that_is_renamed_to_a_name_too_long_for_a_lock_goes_everywhere(kind: Kind) {
    let (primary, replica) = Server::pair(kind);
    primary.run("DLOCK.ACQUIRE job alice 60000");
    primary.run(&format!("RENAME job {}", "x".repeat(20_000)));
    eventually("it goes", || primary.run("DBSIZE").int() == 0);
    eventually("at the replica, too", || replica.run("DBSIZE").int() == 0);
    primary.assert_agrees_with(&replica);
}

/// The names of all places that a lock may have come to would take 80 MB.
#[apply(on_two_servers)]
fn locks_that_are_moved_all_the_time_leave_no_names_behind(kind: Kind) {
    let server = Server::start(kind);
    let mut client = server.client();
    let script = "local long = string.rep('x', 40000)
        for n = 1, 2000 do
            redis.call('DLOCK.ACQUIRE', 'lock', 't', 60000)
            redis.call('RENAME', 'lock', long .. n)
            redis.call('DEL', long .. n)
        end
        redis.call('DLOCK.ACQUIRE', 'lock', 't', 60000)
        redis.call('RENAME', 'lock', 'last')";
    let before = server.info_number("memory", "used_memory");
    client.run("MULTI");
    client.run_args(&["EVAL", script, "0"]);
    client.run("INFO memory");
    let answers = client.run("EXEC");
    let after = answers.items()[1].text();
    let used = after.lines().find_map(|line| line.strip_prefix("used_memory:"));
    let used: i64 = used.and_then(|used| used.trim().parse().ok()).expect("it says so");
    assert!(used < before + (20 << 20), "{before} {used}");
    eventually("the last key goes", || server.run("EXISTS last").int() == 0);
    assert_eq!(server.node("leases").int(), 0);
}

/// Valkey 8.1 does not report the new place of a lock, so the node has to search for it.
#[apply(on_every_server)]
fn a_renamed_lock_disappears_though_others_are_renamed_all_the_time(kind: Kind) {
    let server = Server::start(kind);
    let mut hostile = server.client();
    hostile.pipeline((0..60_000).map(|n| format!("SET text{n} any")));
    server.run("DLOCK.ACQUIRE job alice 60000");
    server.run("RENAME job elsewhere");
    let steps = ["DLOCK.ACQUIRE a t 60000", "RENAME a b", "DEL b"];
    eventually("the lock is found and removed", || {
        hostile.pipeline(steps.map(str::to_owned));
        server.run("EXISTS elsewhere").int() == 0
    });
}
