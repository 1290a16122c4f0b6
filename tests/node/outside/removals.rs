//! Commands that remove a lock from outside: the lease is over, waiters get UNBLOCKED, and that key grants
//! nothing, neither here nor on a replica.

use harness::{Client, Kind, Server, apply, eventually, on_every_server, on_two_servers};

/// A command that removes nothing.
const DAMAGED: &str = "RESTORE job 0 no-payload REPLACE";

/// The modes of the locks that are taken away; the key is always `job`.
const HOLDERS: [&str; 4] = ["", "EPHEMERAL META m", "SHARED", "LIMIT 3"];

/// A primary, its replica, a holder and waiters.
pub struct Scene {
    pub primary: Server,
    pub replica: Server,
    pub holder: Client,
    pub waiters: Vec<Client>,
    pub fence: i64,
}

impl Scene {
    pub fn new(kind: Kind) -> Scene {
        let primary = Server::start(kind);
        let replica = Server::build(kind).replica_of(&primary).start();
        let holder = primary.client();
        primary.until_followed_by(&replica);
        Scene { primary, replica, holder, waiters: Vec::new(), fence: 0 }
    }

    /// A lock that alice holds, and three waiters.
    pub fn set(&mut self, options: &str, ttl: u32) {
        self.primary.run("FLUSHALL");
        let acquired = self.holder.run(&format!("DLOCK.ACQUIRE job alice {ttl} {options}"));
        assert!(acquired.int() > 0);
        let wait = |words| self.primary.waiter(&format!("DLOCK.ACQUIRE job {words}"));
        self.waiters =
            ["bob 60000 WAIT 0", "carol 60000 WAIT 50000 SHARED", "dan 60000 WAIT 0 EPHEMERAL"]
                .map(wait)
                .into();
        self.fence = self.primary.node("fence").int();
    }

    /// Asserts that the waiters got their reply.
    #[track_caller]
    pub fn assert_unblocked(&mut self, what: &str) {
        for waiter in &mut self.waiters {
            assert_eq!(waiter.recv().code(), "UNBLOCKED", "{what}");
            waiter.assert_in_step();
        }
    }

    /// Asserts that there is no holder and no waiter, that none got a reply meanwhile, and that the replica agrees.
    #[track_caller]
    pub fn assert_over(&mut self, what: &str) {
        self.assert_unblocked(what);
        for token in ["alice", "bob", "carol", "dan"] {
            let released = self.holder.run(&format!("DLOCK.RELEASE job {token}"));
            assert_eq!(released.int(), 0, "{what}");
            let extended = self.holder.run(&format!("DLOCK.EXTEND job {token} 1000"));
            assert_eq!(extended.int(), 0, "{what}");
            assert!(self.primary.run(&format!("DLOCK.CHECK job {token}")).is_null(), "{what}");
        }
        assert_eq!(self.primary.info_number("dlock", "dlock_leases"), 0, "{what}");
        assert_eq!(self.primary.info_number("dlock", "dlock_waiters"), 0, "{what}");
        assert_eq!(self.primary.node("fence").int(), self.fence, "{what}");
        self.primary.assert_agrees_with(&self.replica);
    }
}

#[apply(on_every_server)]
fn a_lock_that_is_removed_is_over(kind: Kind) {
    let mut scene = Scene::new(kind);
    for removal in [
        "DEL job",
        "UNLINK job",
        "FLUSHALL SYNC",
        "FLUSHALL ASYNC",
        "FLUSHDB SYNC",
        "FLUSHDB ASYNC",
        DAMAGED,
    ] {
        for holders in HOLDERS {
            scene.set(holders, 60_000);
            let removed = scene.primary.run(removal);
            if removal == DAMAGED {
                removed.assert_error("ERR", "DUMP payload");
                assert_eq!(scene.primary.holders("job"), ["alice"]);
                continue;
            }
            assert!(!removed.is_error(), "{removal}: {removed:?}");
            assert!(scene.primary.run("DLOCK.INSPECT job").is_null());
            scene.assert_over(removal);
            assert_eq!(scene.replica.run("EXISTS job").int(), 0, "{removal}");
        }
    }
}

#[apply(on_every_server)]
fn a_lock_that_is_overwritten_is_over(kind: Kind) {
    let mut scene = Scene::new(kind);
    for (overwriting, becomes) in [
        ("SET job text", "string"),
        ("SET job text PX 60000", "string"),
        ("SETEX job 60 text", "string"),
        ("MSET other 1 job text", "string"),
        ("BITOP NOT job source", "string"),
        ("COPY source job REPLACE", "string"),
        ("RENAME source job", "string"),
        ("SINTERSTORE job none none", "none"),
        ("SORT none STORE job", "none"),
        ("SINTERSTORE job set set", "set"),
        ("SORT set ALPHA STORE job", "list"),
    ] {
        scene.set("", 60_000);
        scene.primary.run("SET source text");
        scene.primary.run("SADD set a b");
        let done = scene.primary.run(overwriting);
        assert!(!done.is_error(), "{overwriting}: {done:?}");
        assert_eq!(scene.primary.run("TYPE job").text(), becomes, "{overwriting}");
        scene.assert_unblocked(overwriting);
        scene.primary.assert_agrees_with(&scene.replica);
        scene.waiters.clear();
        if !["string", "none"].contains(&becomes) {
            scene.primary.run("DEL job");
        }
        scene.assert_over(overwriting);
    }
}

#[apply(on_two_servers)]
fn a_lock_cannot_be_copied(kind: Kind) {
    let mut scene = Scene::new(kind);
    scene.set("LIMIT 3", 60_000);
    let before = scene.primary.traces();
    for words in ["COPY job other", "COPY job other REPLACE", "COPY job job DB 1"] {
        let copied = scene.primary.run(words);
        copied.assert_error("ERR", "not supported for this module key");
    }
    assert_eq!(scene.primary.traces(), before);
    assert_eq!(scene.primary.run("EXISTS other").int(), 0);
    assert_eq!(scene.primary.holders("job"), ["alice"]);
}

#[apply(on_two_servers)]
fn locks_in_a_removal_that_is_taken_in_one_go_with_others_are_over(kind: Kind) {
    let mut scene = Scene::new(kind);
    for script in [
        "redis.call('DEL', 'job') return redis.call('DLOCK.ACQUIRE', 'job', 'eve', 60000)",
        "redis.call('SET', 'job', 'x') redis.call('DEL', 'job')
         return redis.call('DLOCK.ACQUIRE', 'job', 'eve', 60000, 'SHARED')",
        "redis.call('FLUSHALL') return redis.call('DLOCK.ACQUIRE', 'job', 'eve', 60000)",
        "redis.call('RENAME', 'job', 'other') redis.call('RENAME', 'other', 'job')
         return redis.call('DLOCK.ACQUIRE', 'job', 'eve', 60000)",
    ] {
        scene.set("", 60_000);
        let fence = scene.primary.client().run_args(&["EVAL", script, "0"]).int();
        assert!(fence > scene.fence, "{script}");
        scene.fence = fence;
        scene.assert_unblocked(script);
        scene.waiters.clear();
        scene.primary.assert_agrees_with(&scene.replica);
        assert_eq!(scene.primary.run("DLOCK.RELEASE job eve").int(), 1, "{script}");
        scene.assert_over(script);
    }
}

#[apply(on_every_server)]
fn a_user_may_give_a_lock_a_date_and_it_is_over_then(kind: Kind) {
    let mut scene = Scene::new(kind);
    for date in ["PEXPIRE job 100", "EXPIRE job 1", "EXPIRE job -1", "PEXPIREAT job 1"] {
        scene.set("", 60_000);
        assert_eq!(scene.primary.run(date).int(), 1);
        scene.assert_over(date);
        assert_eq!(scene.replica.run("EXISTS job").int(), 0, "{date}");
    }
}

#[apply(on_two_servers)]
fn a_date_that_a_user_took_back_does_not_end_the_lease(kind: Kind) {
    let mut scene = Scene::new(kind);
    scene.set("", 60_000);
    let taken_back = scene.primary.at_once(&["PEXPIRE job 100", "PERSIST job"]);
    assert_eq!(taken_back[1].int(), 1);
    scene.primary.run("SET clock text PX 200");
    eventually("the time has passed", || scene.primary.run("EXISTS clock").int() == 0);
    assert_eq!(scene.primary.holders("job"), ["alice"]);
    assert_eq!(scene.primary.waiters("job").len(), 3);
}

#[apply(on_every_server)]
fn a_lock_whose_date_passes_unseen_is_over_once_it_is_looked_at(kind: Kind) {
    let server = Server::start(kind);
    server.run("DEBUG SET-ACTIVE-EXPIRE 0");
    for holders in HOLDERS {
        let mut alice = server.client();
        alice.run(&format!("DLOCK.ACQUIRE job alice 60000 {holders}"));
        let mut bob = server.waiter("DLOCK.ACQUIRE job bob 60000 WAIT 100");
        let mut carol = server.waiter("DLOCK.ACQUIRE job carol 60000 WAIT 0");
        server.run("PEXPIRE job 20");
        // The first waiter leaves, so the node looks at the lock for the next.
        assert!(bob.recv().is_null());
        let answer = carol.recv();
        if answer.is_error() {
            answer.assert_error("UNBLOCKED", "the key was removed");
        }
        let holds = i64::from(answer.is_int());
        assert_eq!(server.info_number("dlock", "dlock_leases"), holds, "{holders}");
        assert_eq!(server.run("DLOCK.RELEASE job carol").int(), holds);
        assert_eq!(server.run("DBSIZE").int(), 0);
    }
}
