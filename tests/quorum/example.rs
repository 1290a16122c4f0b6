//! The example of the library does what it says.

use harness::Quorum;

use crate::coordinator::run;

#[path = "../../src/client/examples/job.rs"]
#[allow(dead_code)] // its main
mod job;

#[test]
fn the_example_runs_its_job_twice_with_growing_fences() {
    for size in [1, 3] {
        let quorum = Quorum::start(size);
        let [first, second] =
            run(async { job::jobs(&quorum.urls().join(",")).await.expect("all is well") });
        assert!(second > first);
    }
}
