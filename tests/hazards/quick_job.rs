//! A job on two hosts that is quicker than their clocks differ. The second host comes when the first one has
//! finished and released its lock, and runs the job a second time in the same window. dlock leaves the lock
//! done.

use std::thread;
use std::time::Duration;

use harness::{Client, Kind, Server, apply, on_one_server};

use crate::recipe::{Party, SetNx, random};

const KEY: &str = "nightly";
/// The lease: longer than the job.
const LEASE: u64 = 10_000;
/// The second host's clock is behind by this much, and the job takes a tenth of it.
const APART: Duration = Duration::from_millis(300);

/// A host with a scheduler that starts a job, with any recipe.
trait Host {
    fn connect(port: u16) -> Self;

    /// Runs at its scheduler's time. Returns true if it ran the job.
    fn fires(&mut self, job: impl FnMut()) -> bool;
}

/// Takes a lock, runs the job, gives the lock back.
impl Host for SetNx {
    fn connect(port: u16) -> SetNx {
        Party::connect(port)
    }

    fn fires(&mut self, mut job: impl FnMut()) -> bool {
        let runs = self.try_lock(KEY, LEASE);
        if runs {
            job();
            self.unlock(KEY);
        }
        runs
    }
}

/// The same, but the lock is done for half of a day.
struct Done {
    client: Client,
}

impl Host for Done {
    fn connect(port: u16) -> Done {
        Done { client: Client::connect(port).expect("it listens") }
    }

    fn fires(&mut self, mut job: impl FnMut()) -> bool {
        let token = random();
        let answer = self.client.run(&format!("DLOCK.ACQUIRE {KEY} {token} {LEASE}"));
        if !answer.is_int() {
            assert_eq!(answer.code(), "DONE");
            return false;
        }
        job();
        let released = format!("DLOCK.RELEASE {KEY} {token} DONE 43200000 META exit=0");
        assert_eq!(self.client.run(&released).int(), 1);
        true
    }
}

/// Two hosts start a job at the same time by their own clocks. Returns how often it ran.
fn runs<H: Host>(server: &Server) -> usize {
    let (mut fast, mut slow) = (H::connect(server.port()), H::connect(server.port()));
    let job = || thread::sleep(APART / 10);
    let first = fast.fires(job);
    thread::sleep(APART - APART / 10);
    [first, slow.fires(job)].into_iter().filter(|ran| *ran).count()
}

#[test]
fn with_a_lock_alone_it_runs_twice() {
    let server = Server::build(Kind::Redis82).without_module().start();
    assert_eq!(runs::<SetNx>(&server), 2);
}

#[apply(on_one_server)]
fn with_a_lock_that_is_left_done_it_runs_once(kind: Kind) {
    assert_eq!(runs::<Done>(&Server::start(kind)), 1);
}
