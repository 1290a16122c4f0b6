//! A wait that is exact to about a tenth of a millisecond: the runtime's timers count whole ones.

use std::thread;
use std::time::{Duration, Instant};

use tokio::task::spawn_blocking;

/// Waits until then. Dropped, it leaves a thread that sleeps for two more milliseconds at most.
pub async fn until(moment: Instant) {
    let left = || moment.saturating_duration_since(Instant::now());
    if left() > COARSE {
        tokio::time::sleep_until((moment - COARSE).into()).await;
    }
    let left = left();
    if !left.is_zero() {
        // This cannot fail: the task does not panic, and nobody aborts it.
        let _ = spawn_blocking(move || thread::sleep(left)).await;
    }
}

/// The runtime is late by this, at most, where it has anything to do at all.
const COARSE: Duration = Duration::from_millis(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn it_never_ends_too_early() {
        for length in [0, 300, 3_200].map(Duration::from_micros) {
            let moment = Instant::now() + length;
            until(moment).await;
            assert!(Instant::now() >= moment, "{length:?}");
        }
    }
}
