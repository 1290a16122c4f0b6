//! The living processes of a group: dead ones do not count.
//!
//! A process that has ended belongs to its group until its parent collects it. The parent of an
//! orphan is process 1, which may take a while; in a container it may never do it.

use std::fs;
use std::io;

use nix::unistd::Pid;

/// True if a process of this group runs, given that the group has members. They count as running if /proc shows none
/// of them: it may be missing, or hide the processes of other users (hidepid).
pub fn runs(group: Pid) -> bool {
    let stats = stats().unwrap_or_default();
    let all = stats.iter().filter_map(|stat| read(stat));
    let mut states = all.filter(|(_, of)| *of == group.as_raw()).map(|(state, _)| state).peekable();
    states.peek().is_none() || states.any(|state| !DEAD.contains(&state))
}

fn stats() -> io::Result<Vec<String>> {
    let stats = fs::read_dir("/proc")?.flatten().filter_map(|entry| {
        // Bytes, because a process may have any name.
        let stat = fs::read(entry.path().join("stat")).ok()?;
        Some(String::from_utf8_lossy(&stat).into_owned())
    });
    Ok(stats.collect())
}

/// Reads state and group from `PID (NAME) STATE PARENT GROUP …`. The name may contain any bytes.
fn read(stat: &str) -> Option<(char, i32)> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut words = rest.split_whitespace();
    let state = words.next()?.chars().next()?;
    let group = words.nth(1)?.parse().ok()?;
    Some((state, group))
}

const DEAD: [char; 3] = ['Z', 'X', 'x'];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_pretend_to_be_a_state() {
        assert_eq!(read("4711 (sleep) S 1 4700 4700 0 -1"), Some(('S', 4700)));
        assert_eq!(read("4711 (a) Z 9 (b) Z 1 4700 4700"), Some(('Z', 4700)));
        assert_eq!(read("nonsense"), None);
    }

    #[test]
    fn the_group_of_this_process_runs() {
        assert!(runs(nix::unistd::getpgrp()));
    }

    #[test]
    fn a_group_whose_processes_are_hidden_counts_as_running() {
        assert!(runs(Pid::from_raw(i32::MAX)));
    }
}
