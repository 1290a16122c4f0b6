//! A wall clock that a test can move for one program, while its monotonic clock goes on; the sleep of a
//! machine, as the program sees it; and a monotonic clock that runs faster or slower.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/faults/wall_clock.c");

/// Makes a server use the clock of this file when it starts, and run faster by this many millionths.
pub fn attach(command: &mut Command, file: &Path, faster: i64) {
    set(file, 0);
    write(file, faster, 16);
    preload(command, file);
}

/// The same for any program, with the clock as it was [`set`].
pub fn preload(command: &mut Command, file: &Path) {
    command.env("LD_PRELOAD", library()).env("DLOCK_TEST_CLOCK", file);
}

/// Sets the clock of this file to this many seconds from the real one.
pub fn set(file: &Path, seconds: i64) {
    write(file, seconds, 0);
}

/// Shows the program that the machine has slept for this many seconds in all. No timer of it counts them.
pub fn sleep(file: &Path, seconds: i64) {
    write(file, seconds, 8);
}

fn write(file: &Path, seconds: i64, at: u64) {
    // In place: the server has the file mapped, and would crash if it got shorter.
    let mut options = OpenOptions::new();
    let file = options.write(true).create(true).truncate(false).open(file);
    let written = file.and_then(|file| file.write_all_at(&seconds.to_ne_bytes(), at));
    written.expect("the clock's file can be written");
}

/// The time, in microseconds, on a clock that is set this many seconds from the real one.
pub fn micros(seconds: i64) -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970");
    now.as_micros() as i64 + seconds * 1_000_000
}

/// The library that is loaded into the server, compiled once for a test run, beside its program.
fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let program = std::env::current_exe().expect("a program has a path");
        let library = program.with_file_name("wall_clock.so");
        // Servers of other tests may have it loaded.
        let new = library.with_extension(std::process::id().to_string());
        let mut gcc = Command::new("gcc");
        gcc.args(["-shared", "-fPIC", "-O2", SOURCE, "-o"]).arg(&new);
        let compiled = gcc.status().expect("gcc is missing: run `make setup`");
        assert!(compiled.success(), "{SOURCE} does not compile");
        std::fs::rename(&new, &library).expect("the folder is ours");
        library
    })
}
