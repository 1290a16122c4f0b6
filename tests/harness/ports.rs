//! Free loopback ports for servers.

use std::net::TcpListener;
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

/// How far above its port a cluster node listens for the others.
const BUS: u16 = 10_000;

/// Ports are handed out below the range from which the kernel takes those of outgoing connections,
/// so that no client can sit on a port between this probe and the server's own bind.
const FIRST: u32 = 11_000;
const COUNT: u32 = 11_000;

/// The first of so many ports in a row that are free now.
pub fn free_row(count: u16) -> u16 {
    let mut row = vec![free()];
    while row.len() < usize::from(count) {
        let next = free();
        if row.last().is_some_and(|last| last + 1 != next) {
            row.clear();
        }
        row.push(next);
    }
    row[0]
}

/// A port that is free now, and whose cluster bus port is free too. Another test run may still be
/// quicker: who starts a server must make sure that it is the one that answers.
pub fn free() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    for _ in 0..COUNT {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        // Runs at the same time begin at different places.
        let offset = process::id().wrapping_mul(307).wrapping_add(step) % COUNT;
        let port = (FIRST + offset) as u16;
        let is_free = |port| TcpListener::bind(("127.0.0.1", port)).is_ok();
        if is_free(port) && is_free(port + BUS) {
            return port;
        }
    }
    panic!("no free port from {FIRST} to {}", FIRST + COUNT);
}
