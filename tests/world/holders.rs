//! Holders of a real lock over several nodes; the first one stops.

use dlock_client::Guard;
use harness::Quorum;
use harness::library::{connect, ms, run, take, wait_for};
use tokio::runtime::{Builder, Runtime};

/// A paused holder: nothing of its program runs any more, not even the renewal.
pub struct StoppedHolder {
    _program: Runtime,
    guard: Guard,
}

impl StoppedHolder {
    pub fn of(quorum: &Quorum, key: &str) -> StoppedHolder {
        let program = Builder::new_current_thread().enable_all().build().expect("it can be made");
        let guard = program
            .block_on(async { take(&connect(&quorum.urls(), ms(5000)).await, key, ms(500)).await });
        StoppedHolder { _program: program, guard }
    }

    pub fn fence(&self) -> u64 {
        self.guard.fence()
    }
}

/// The fence of the next holder, after a wait until the lock is free.
pub fn next_holder(quorum: &Quorum, key: &str) -> u64 {
    run(async {
        let guard = wait_for(&connect(&quorum.urls(), ms(5000)).await, key, ms(60_000)).await;
        let fence = guard.fence();
        guard.release().await.expect("it is held");
        fence
    })
}
