//! Promoted replicas. They may lack leases that their primary granted, so they grant nothing new until the
//! longest of those is over, and then with larger fences.

use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use harness::quarantine::{CRASHED, PROMOTED, UNTOLD, assert_bound, assert_no_shorter};
use harness::{Kind, Server, apply, eventually, on_every_server, on_two_servers};

/// A primary that sends its data set without a file, as all servers do by default. Then it sends nothing more
/// until the replica acknowledges that.
pub fn streams(kind: Kind) -> Server {
    Server::build(kind).config("repl-diskless-sync yes").start()
}

/// The primary has granted a lease of this many milliseconds, which is over, and its replica has the lease
/// bound.
fn pair_with_leases_of(kind: Kind, ttl: u32) -> (Server, Server) {
    let (primary, replica) = Server::pair(kind);
    grant_and_release(&primary, ttl);
    until_told(&primary, &replica);
    (primary, replica)
}

pub fn grant_and_release(primary: &Server, ttl: u32) {
    assert!(primary.run(&format!("DLOCK.ACQUIRE earlier alice {ttl}")).int() > 0);
    assert_eq!(primary.run("DLOCK.RELEASE earlier alice").int(), 1);
}

/// Waits until a replica has all data of its primary, and the lease bound.
pub fn until_told(primary: &Server, replica: &Server) {
    until_told_more(primary, replica, 0);
}

/// The same for a replica that had received this many promises before.
pub fn until_told_more(primary: &Server, replica: &Server, before: u64) {
    primary.until_followed_by(replica);
    eventually("the replica knows the bound of its primary", || times_told(replica) > before);
    let bound = primary.node("lease-bound-ms").int();
    eventually("and it says so", || replica.node("lease-bound-ms").int() >= bound);
}

/// The number of promises that a replica has received. Its figures about its own leases may be as much before
/// that.
pub fn times_told(replica: &Server) -> u64 {
    let commands = replica.info("commandstats");
    let promises = commands.get("cmdstat_dlock.promise").and_then(|stats| {
        let (calls, _) = stats.strip_prefix("calls=")?.split_once(',')?;
        calls.parse().ok()
    });
    promises.unwrap_or(0)
}

/// Cuts a replica off its primary, and pauses it.
pub fn cut(primary: &Server, replica: &Server) {
    replica.pause();
    primary.run("CLIENT KILL TYPE replica");
    eventually("the link is gone", || primary.info("replication")["connected_slaves"] == "0");
}

#[track_caller]
pub fn promote(replica: &Server) {
    assert_eq!(replica.run("REPLICAOF NO ONE").text(), "OK");
    assert_eq!(replica.node("role").text(), "primary");
}

/// Asks a promoted node for a lock with a last lease requested at `sent`: it is granted, and not too early.
#[track_caller]
fn assert_granted_late(node: &Server, key: &str, sent: Instant, ttl: u64) {
    let granted = node.client().run(&format!("DLOCK.ACQUIRE {key} bob 60000 WAIT 0"));
    let held = sent.elapsed();
    assert!(granted.int() > 0, "{granted:?}");
    assert!(held >= Duration::from_millis(ttl), "{key}: granted again after {held:?}");
}

#[apply(on_every_server)]
fn no_grant_comes_before_a_lease_that_never_reached_the_replica_is_over(kind: Kind) {
    for is_cut in [true, false] {
        let (primary, replica) = pair_with_leases_of(kind, 800);
        if is_cut {
            cut(&primary, &replica);
        } else {
            replica.pause();
        }
        let sent = Instant::now();
        let fence = primary.run("DLOCK.ACQUIRE lost alice 800").int();
        primary.pause();
        replica.resume();
        promote(&replica);
        assert_granted_late(&replica, "lost", sent, 800);
        assert!(replica.run("DLOCK.CHECK lost bob").int() > fence);
        replica.assert_grants();
    }
}

#[apply(on_every_server)]
fn leases_that_reached_the_replica_go_on_and_nothing_else_is_granted(kind: Kind) {
    let (primary, replica) = Server::pair(kind);
    let fence = primary.run("DLOCK.ACQUIRE job alice 60000 META m").int();
    primary.run("DLOCK.ACQUIRE other alice 60000");
    primary.run("DLOCK.ACQUIRE book alice 60000 SHARED");
    until_told(&primary, &replica);
    primary.pause();
    let since = Instant::now();
    promote(&replica);
    assert_bound(replica.assert_in_quarantine(PROMOTED), 60_000, since);
    // The client of a lease that was granted without a received reply may ask; and another has held the lock
    // since.
    let larger = format!("EXTEND job alice 70000 FENCE {}", fence + 1);
    for request in ["ACQUIRE job alice 70000", "CHECK job alice", "EXTEND job alice 70000", &larger]
    {
        assert_eq!(replica.run(&format!("DLOCK.{request}")).code(), "QUARANTINE", "{request}");
    }
    assert_eq!(replica.run(&format!("DLOCK.EXTEND job alice 70000 FENCE {fence}")).int(), 1);
    assert_eq!(replica.run("DLOCK.RELEASE other alice").int(), 1);
    for request in ["job bob 1000", "other alice 1000", "book bob 1000 SHARED", "free bob 1000"] {
        let answer = replica.run(&format!("DLOCK.ACQUIRE {request}"));
        assert_eq!(answer.code(), "QUARANTINE", "{request}");
    }
    assert_eq!(replica.quarantine_lines(), 1, "{}", replica.log());
}

#[apply(on_every_server)]
fn a_fresh_replica_knows_how_long_leases_of_its_primary_may_be(kind: Kind) {
    for load in ["disabled", "swapdb"] {
        let primary = streams(kind);
        grant_and_release(&primary, 60_000);
        let replica = Server::build(kind)
            .config(&format!("repl-diskless-load {load}"))
            .replica_of(&primary)
            .start();
        until_told(&primary, &replica);
        primary.pause();
        let since = Instant::now();
        promote(&replica);
        assert_bound(replica.assert_in_quarantine(PROMOTED), 60_000, since);
    }
}

#[apply(on_two_servers)]
fn a_replica_of_a_replica_waits_as_well(kind: Kind) {
    let (primary, middle) = Server::pair(kind);
    let last = middle.replica();
    grant_and_release(&primary, 60_000);
    let fence = primary.run("DLOCK.ACQUIRE job alice 20000").int();
    until_told(&primary, &middle);
    until_told(&primary, &last);
    primary.pause();
    middle.pause();
    let since = Instant::now();
    promote(&last);
    assert_bound(last.assert_in_quarantine(PROMOTED), 60_000, since);
    assert_eq!(last.holder("job")["fence"].int(), fence);
}

/// A replica that has its primary's data set and no promise: nothing is replicated in a pause.
fn untold(kind: Kind, primary: &Server, lines: &[&str]) -> Server {
    primary.run("CLIENT PAUSE 3600000 WRITE");
    let builder = Server::build(kind);
    let replica = lines.iter().fold(builder, |builder, line| builder.config(line)).start();
    replica.run(&format!("REPLICAOF 127.0.0.1 {}", primary.port()));
    eventually("the link is up", || replica.info("replication")["master_link_status"] == "up");
    assert_eq!(times_told(&replica), 0);
    replica
}

/// The primary may have granted anything since its data set was copied.
#[apply(on_every_server)]
fn one_that_was_told_nothing_waits_for_the_longest_new_lease(kind: Kind) {
    for (lines, longest) in [(&[][..], 600_000), (&["dlock.max-ttl 90000"], 90_000)] {
        let primary = Server::start(kind);
        grant_and_release(&primary, 60_000);
        let replica = untold(kind, &primary, lines);
        let since = Instant::now();
        promote(&replica);
        let left = replica.assert_in_quarantine(UNTOLD);
        let passed = since.elapsed().as_millis() as i64 + 1;
        assert!((longest - passed..=longest).contains(&left), "{left} of {longest} ms left");
    }
}

/// A healthy pair that fails over and back waits for its own leases only.
#[apply(on_two_servers)]
fn a_server_that_gets_another_primary_waits_for_the_longest_lease_until_it_is_told(kind: Kind) {
    let (old, new) = pair_with_leases_of(kind, 60_000);
    promote(&new);
    old.run(&format!("REPLICAOF 127.0.0.1 {}", new.port()));
    until_told(&new, &old);
    promote(&old);
    old.assert_in_quarantine(PROMOTED);
    old.leave_quarantine();
    old.run("CONFIG SET dlock.quarantine auto");
    // Nothing listens at this port.
    old.run("REPLICAOF 127.0.0.1 1");
    let since = Instant::now();
    promote(&old);
    let left = old.assert_in_quarantine(UNTOLD);
    assert!(left >= 600_000 - since.elapsed().as_millis() as i64 - 1, "{left} ms left");
}

/// Its state file says so, for it may crash before it is promoted.
#[apply(on_two_servers)]
fn one_that_was_told_nothing_and_starts_again_waits_no_shorter(kind: Kind) {
    let primary = streams(kind);
    grant_and_release(&primary, 60_000);
    let mut replica = untold(kind, &primary, &[]);
    let says = || state_bound(&replica) >= 600_000;
    eventually("its state file says so", says);
    replica.kill();
    replica.start_again();
    let left = replica.assert_in_quarantine(CRASHED);
    assert!((500_000..=600_000).contains(&left), "{left} ms left");
}

/// The longest lease, as a state file has it.
fn state_bound(server: &Server) -> i64 {
    let file = fs::read_to_string(server.state_file()).expect("the state file can be read");
    let line = file.lines().find_map(|line| line.strip_prefix("bound-ms "));
    line.and_then(|ms| ms.parse().ok()).expect("it says how long leases run")
}

/// An assumed bound is not passed on as that of a granted lease, and is dropped once an operator ends the
/// quarantine.
#[apply(on_two_servers)]
fn an_assumed_bound_is_not_handed_on_as_known(kind: Kind) {
    let primary = streams(kind);
    let mut middle = untold(kind, &primary, &[]);
    primary.pause();
    promote(&middle);
    let since = Instant::now();
    let left = middle.assert_in_quarantine(UNTOLD);
    let last = middle.replica();
    eventually("it is told", || times_told(&last) > 0);
    assert_eq!(last.node("lease-bound-ms").int(), middle.node("lease-bound-ms").int());
    assert_eq!(middle.node("lease-bound-ms").int(), 0);
    // While that quarantine lasts, a promoted replica waits for its remaining time.
    let other = middle.replica();
    eventually("it is told, too", || times_told(&other) > 0);
    promote(&other);
    let next = other.assert_in_quarantine(PROMOTED);
    assert_no_shorter(next, left, since);
    assert!(next <= left, "{next} ms of {left}");

    let before = times_told(&last);
    middle.leave_quarantine();
    assert_eq!(middle.run("CONFIG SET dlock.quarantine auto").text(), "OK");
    grant_and_release(&middle, 60_000);
    eventually("the state files forget it", || {
        state_bound(&middle) < 70_000 && state_bound(&last) < 70_000 && times_told(&last) > before
    });
    middle.kill();
    let since = Instant::now();
    promote(&last);
    assert_bound(last.assert_in_quarantine(PROMOTED), 60_000, since);
    middle.start_again();
    assert_bound(middle.assert_in_quarantine(CRASHED), 60_000, since);
}

/// A promise counts as a change of the data, and after a change the server takes the next snapshot.
#[apply(on_every_server)]
fn a_snapshot_is_no_news_for_a_replica(kind: Kind) {
    let primary = Server::start(kind);
    let replica = Server::build(kind).replica_of(&primary).start();
    until_told(&primary, &replica);
    // A promise of another cause may come beside one snapshot.
    eventually("a snapshot sends none", || {
        let told = times_told(&replica);
        primary.run("BGSAVE");
        eventually("it is saved", || primary.info("persistence")["rdb_bgsave_in_progress"] == "0");
        // The event loop looks ten times a second.
        sleep(Duration::from_millis(300));
        times_told(&replica) == told
    });
}
