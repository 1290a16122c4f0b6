//! A lock that outlives its job. It is not renewed, so it has to be longer than the longest run: hours, or
//! days. When the job is killed by `kill -9`, or its machine runs out of memory, the lock stays, and the job
//! does not run for as long. dlock's lease is one of seconds, renewed while the job runs, however long that
//! takes.

use harness::running::Running;
use harness::{Kind, Quorum, Server, eventually};
use nix::sys::signal::Signal;

use crate::recipe::{Party, SetNx};

/// The job may take three days, in milliseconds.
const LONGEST: u64 = 3 * 24 * 3_600_000;

#[test]
fn a_lock_as_long_as_the_longest_run_mutes_a_job_that_was_killed_for_days() {
    let server = Server::build(Kind::Redis82).without_module().start();
    let (mut worker, mut next) = (SetNx::connect(server.port()), SetNx::connect(server.port()));
    assert!(worker.try_lock("export", LONGEST));
    let connected = || server.info_number("clients", "connected_clients");
    let before = connected();
    drop(worker);
    eventually("the worker is gone", || connected() < before);
    assert!(!next.try_lock("export", LONGEST));
    let left = server.run("PTTL export").int();
    assert!(left > 2 * 24 * 3_600_000, "the job is mute for {left} ms");
}

#[test]
fn a_lease_that_is_renewed_outlasts_any_run_and_ends_seconds_after_a_kill() {
    let quorum = Quorum::start(1);
    let start = |job: &str| Running::start(&quorum, &["--ttl", "6s", "export", "-c", job]);
    let worker = start("echo begun; exec sleep 600");
    worker.until_it_prints("begun\n");
    let next = start("echo next");
    eventually("it waits for longer than the lease", || {
        let inspection = quorum[0].run("DLOCK.INSPECT export");
        let waiters = inspection.at("waiters");
        waiters.items().first().is_some_and(|waiter| waiter.at("waited-ms").int() > 6_500)
    });
    assert_eq!(next.out(), "");
    worker.signal(Signal::SIGKILL);
    assert_eq!(next.ended().with_code(0).out, "next\n");
    worker.ended();
}
