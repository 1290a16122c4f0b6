//! The folders of servers: in memory, where there is room. No test then waits for a busy disk. A node that
//! has waited a second for its state file refuses to grant.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::statvfs::statvfs;
use tempfile::TempDir;

/// A new folder, removed when the returned value is dropped. TMPDIR sets its place.
pub fn folder() -> TempDir {
    TempDir::with_prefix_in("dlock-test-", place()).expect("a temporary folder can be made")
}

/// Puts files on a disk from now on: for the benchmark, which measures its cost.
pub fn use_a_disk() {
    ON_DISK.store(true, Ordering::Relaxed);
}

static ON_DISK: AtomicBool = AtomicBool::new(false);
const IN_MEMORY: &str = "/dev/shm";
/// Containers often have 64 MB there.
const ROOM: u64 = 2 << 30;

fn place() -> PathBuf {
    static ROOMY: OnceLock<bool> = OnceLock::new();
    let elsewhere = ON_DISK.load(Ordering::Relaxed) || env::var_os("TMPDIR").is_some();
    if !elsewhere && *ROOMY.get_or_init(is_roomy) { IN_MEMORY.into() } else { env::temp_dir() }
}

fn is_roomy() -> bool {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let is_memory = mounts.lines().any(|line| {
        let mut words = line.split(' ').skip(1);
        words.next() == Some(IN_MEMORY) && words.next() == Some("tmpfs")
    });
    let room =
        statvfs(Path::new(IN_MEMORY)).map(|disk| disk.blocks_available() * disk.fragment_size());
    is_memory && room.is_ok_and(|room| room >= ROOM)
}
