//! Waiting for something that can be observed, instead of sleeping and hoping.

use std::io::{self, ErrorKind};
use std::thread;
use std::time::{Duration, Instant};

/// Longer than anything that works takes on a busy machine; only a failing test waits this long.
pub const PATIENCE: Duration = Duration::from_secs(180);

const SHORTEST: Duration = Duration::from_millis(2);
const LONGEST: Duration = Duration::from_millis(10);

/// The pause before the next look of a wait that has begun then: whoever waits for long looks less often.
pub fn pause(begun: Instant) -> Duration {
    (begun.elapsed() / 20).clamp(SHORTEST, LONGEST)
}

/// Waits until the condition holds, and panics with its description when it never does.
#[track_caller]
pub fn eventually(description: &str, mut condition: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < PATIENCE, "never happened in {PATIENCE:?}: {description}");
        thread::sleep(pause(begun));
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
