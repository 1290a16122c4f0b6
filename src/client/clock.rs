//! The clock for leases: one that goes on while the machine sleeps.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use dlock_core::words::{Instant, Millis, Time};
use nix::time::{ClockId, clock_gettime};

/// The present time, on a clock that goes on while the machine is suspended.
pub(crate) fn now() -> Instant {
    // Linux and macOS always have it.
    let time = clock_gettime(CLOCK).map_or(Duration::ZERO, Duration::from);
    Instant(u64::try_from(time.as_micros()).unwrap_or(u64::MAX))
}

/// The present time on both clocks. The wall clock is only a floor for proposed fences.
pub(crate) fn time() -> Time {
    let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time { now: now(), unix: u64::try_from(unix.as_micros()).unwrap_or(u64::MAX) }
}

/// Sleeps until this moment, or for ever.
///
/// The runtime's timers stop while the machine is suspended, so this reads the clock again every second.
pub(crate) async fn sleep_until(end: Option<Instant>) {
    let Some(end) = end else { return std::future::pending().await };
    loop {
        let left = left(end);
        if left.is_zero() {
            return;
        }
        tokio::time::sleep(left.min(LOOK_AGAIN)).await;
    }
}

/// Time left until this moment.
pub(crate) fn left(end: Instant) -> Duration {
    Duration::from_micros(end.since(now()))
}

/// Whole milliseconds, rounded up, and at least one: zero often has another meaning.
pub(crate) fn millis(length: Duration) -> Millis {
    let millis = length.as_micros().div_ceil(1000).max(1);
    Millis(u64::try_from(millis).unwrap_or(u64::MAX))
}

/// Linux stops CLOCK_MONOTONIC while the machine is suspended, and macOS does not.
#[cfg(target_os = "linux")]
const CLOCK: ClockId = ClockId::CLOCK_BOOTTIME;
#[cfg(target_os = "macos")]
const CLOCK: ClockId = ClockId::CLOCK_MONOTONIC;
const LOOK_AGAIN: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_is_rounded_up_to_whole_milliseconds_and_never_zero() {
        assert_eq!(millis(Duration::ZERO), Millis(1));
        assert_eq!(millis(Duration::from_micros(1500)), Millis(2));
        assert_eq!(millis(Duration::from_millis(3)), Millis(3));
    }

    #[test]
    fn the_clock_goes_on() {
        let before = now();
        std::thread::sleep(Duration::from_millis(2));
        assert!(now().since(before) >= 2_000);
        assert!(left(before).is_zero());
    }
}
