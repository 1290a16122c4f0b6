//! The length of tests that can go on for hours: short with `make test`, long with `make soak` or `make
//! jobs`, and with `make soak HOURS=8` as long as a turn there.

use std::env;
use std::time::Duration;

/// The number of times that one test kills a server: DLOCK_SOAK_KILLS, or `few` without it.
pub fn kills(few: u32) -> u32 {
    match env::var("DLOCK_SOAK_KILLS") {
        Ok(text) => text.parse().expect("DLOCK_SOAK_KILLS is a number"),
        Err(_) => few,
    }
}

/// True if a test tries every case instead of a sample: DLOCK_SOAK is set.
pub fn tries_every_case() -> bool {
    env::var_os("DLOCK_SOAK").is_some()
}

/// The length of a course of jobs over one set of nodes: DLOCK_JOBS, in seconds. `None` without it: a short
/// one.
pub fn jobs() -> Option<Duration> {
    let text = env::var("DLOCK_JOBS").ok()?;
    Some(Duration::from_secs(text.parse().expect("DLOCK_JOBS is a number of seconds")))
}

/// The length of one run of chaos: DLOCK_SOAK_CHAOS, in seconds. `None` without it: a short and mild one.
pub fn chaos() -> Option<Duration> {
    let text = env::var("DLOCK_SOAK_CHAOS").ok()?;
    let seconds = text.parse().expect("DLOCK_SOAK_CHAOS is a number of seconds");
    Some(Duration::from_secs(seconds))
}

/// The length of a run with random faults: DLOCK_SOAK_RUN, in seconds. Without it, a short one, or a long one if every case is
/// tried.
pub fn run(short: Duration, long: Duration) -> Duration {
    match env::var("DLOCK_SOAK_RUN") {
        Ok(text) => {
            Duration::from_secs(text.parse().expect("DLOCK_SOAK_RUN is a number of seconds"))
        }
        Err(_) if tries_every_case() => long,
        Err(_) => short,
    }
}

/// The length of each lock's turn under the same faults: DLOCK_SOAK_FAULTS, in seconds. `None` without it:
/// until it is accused.
pub fn faults() -> Option<Duration> {
    let text = env::var("DLOCK_SOAK_FAULTS").ok()?;
    let seconds = text.parse().expect("DLOCK_SOAK_FAULTS is a number of seconds");
    Some(Duration::from_secs(seconds))
}
