//! Waiting for something observable, instead of sleeping.

use std::io::{self, ErrorKind};
use std::thread;
use std::time::{Duration, Instant};

use crate::stuck;

/// Longer than any working operation on a busy machine; only a failing test waits this long.
pub const PATIENCE: Duration = Duration::from_secs(180);

const SHORTEST: Duration = Duration::from_millis(2);
const LONGEST: Duration = Duration::from_millis(10);

/// The pause before the next look of a wait with this beginning: a long wait looks less often.
pub fn pause(begun: Instant) -> Duration {
    (begun.elapsed() / 20).clamp(SHORTEST, LONGEST)
}

/// Waits until the condition holds, and panics with its description when it never does.
#[track_caller]
pub fn eventually(description: &str, mut condition: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert_patient(description, begun);
        thread::sleep(pause(begun));
    }
}

/// Panics when a wait with this beginning takes too long, after printing the state of the test.
#[track_caller]
pub fn assert_patient(description: &str, begun: Instant) {
    if begun.elapsed() >= PATIENCE {
        stuck::tell();
        panic!("never happened in {PATIENCE:?}: {description}");
    }
}

/// Repeats a call that a signal has interrupted.
pub fn uninterrupted<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}
