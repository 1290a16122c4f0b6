//! Waiting for something that can be observed, instead of sleeping and hoping.

use std::io::{self, ErrorKind};
use std::thread;
use std::time::{Duration, Instant};

/// Longer than anything that works takes on a busy machine; only a failing test waits this long.
pub const PATIENCE: Duration = Duration::from_secs(180);

const PAUSE: Duration = Duration::from_millis(2);

/// Waits until the condition holds, and panics with its description when it never does.
#[track_caller]
pub fn eventually(description: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "never happened in {PATIENCE:?}: {description}");
        thread::sleep(PAUSE);
    }
}

/// Does it again when the process was stopped meanwhile, and goes on.
pub fn uninterrupted<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}
