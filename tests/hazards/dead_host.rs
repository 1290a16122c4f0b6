//! A host that crashes in the middle of its job. The usual recipes against a second run in the same window
//! note the run before the work, or never release the lock: then the job does not run in this window at all.
//! dlock notes it after the work: the crashed host's lease ends, and the next host runs the job.

use harness::running::Running;
use harness::{Kind, Quorum, Server};
use nix::sys::signal::Signal;

use crate::recipe::set_nx;

/// The claim lasts half of a day, in milliseconds.
const WINDOW: u64 = 43_200_000;

#[test]
fn a_run_that_is_noted_before_the_work_is_not_made_up_for() {
    let server = Server::build(Kind::Redis82).without_module().start();
    let claims = |host: &str| set_nx(&mut server.client(), "nightly:2026-11-25", host, WINDOW);
    assert!(claims("web-1"), "it runs the job");
    // The host crashes: the lock is not released, nor would it be otherwise.
    assert!(!claims("web-2") && !claims("web-3"), "they take it for done");
    let left = server.run("PTTL nightly:2026-11-25").int();
    assert!(left > 43_000_000, "nobody runs it for {left} ms");
}

#[test]
fn a_run_that_is_noted_after_the_work_is_made_up_for_by_the_waiter() {
    let quorum = Quorum::start(3);
    let start = |job: &str| {
        let options = ["--ttl", "8s", "--done-for", "12h", "nightly", "-c", job];
        Running::start(&quorum, &options)
    };
    let first = start("echo begun; exec sleep 600");
    first.until_it_prints("begun\n");
    let (second, third) = (start("echo whole"), start("echo whole"));
    first.signal(Signal::SIGKILL);
    let said = [second, third].map(|host| host.ended());
    let whole = said.iter().filter(|said| said.out == "whole\n").count();
    assert_eq!(whole, 1, "{said:#?}");
    first.ended();
}
