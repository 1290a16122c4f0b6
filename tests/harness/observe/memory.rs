//! A server's memory, and leaks.

use std::thread;
use std::time::{Duration, Instant};

use crate::server::Server;
use crate::wait::PATIENCE;

/// The buffers of the client that asks grow and shrink. A leak of the smallest allocation for each of 10,000
/// things is larger than this.
const A_CLIENTS_BUFFERS: i64 = 64 * 1024;

impl Server {
    /// The bytes in use.
    #[track_caller]
    pub fn used_memory(&self) -> i64 {
        self.info_number("memory", "used_memory")
    }

    /// The memory in use once it has stopped falling.
    #[track_caller]
    pub fn settled_memory(&self) -> i64 {
        let mut least = self.used_memory();
        let mut since = Instant::now();
        while since.elapsed() < Duration::from_millis(1500) {
            let now = self.used_memory();
            if now < least {
                least = now;
                since = Instant::now();
            }
            thread::sleep(Duration::from_millis(20));
        }
        least
    }

    /// Waits until no more is in use than before: buffers of clients shrink, and tables are
    /// resized, within some seconds.
    #[track_caller]
    pub fn assert_memory_falls_back_to(&self, before: i64) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let after = self.used_memory();
            if after <= before + A_CLIENTS_BUFFERS {
                return;
            }
            assert!(
                Instant::now() < deadline,
                "{before} bytes in use before, {after} after: {:.1} % more",
                (after - before) as f64 * 100.0 / before as f64
            );
            thread::sleep(Duration::from_millis(20));
        }
    }
}
