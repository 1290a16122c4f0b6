//! The machine that was measured.

use std::fs;
use std::process::Command;
use std::thread;

/// Processor, how many there are, and kernel.
pub fn machine() -> String {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let kernel = read("/proc/sys/kernel/osrelease");
    format!("{}, {cores} processors, Linux {}", processor(), kernel.trim())
}

fn processor() -> String {
    let text = read("/proc/cpuinfo");
    let model = text.lines().find_map(|line| line.strip_prefix("model name"));
    let name = model.and_then(|rest| rest.split_once(':')).map(|(_, name)| name.trim());
    name.unwrap_or("a processor without a name").to_owned()
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// Today, as 2026-01-31.
pub fn today() -> String {
    let date = Command::new("date").args(["-u", "+%Y-%m-%d"]).output();
    date.map(|date| String::from_utf8_lossy(&date.stdout).trim().to_owned()).unwrap_or_default()
}
