//! The processes of the command: the first one and all its descendants, in any group or session.
//!
//! dlock is their subreaper: an orphaned process becomes a child of dlock. So all are gone when the kernel reports
//! that dlock has no child left. A process is a child until its last thread has ended, even of another user, or hidden
//! in /proc. Sending signals to all of them needs /proc.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};

use nix::sys::prctl::set_child_subreaper;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, getpgid, getpgrp, getpid};
use rustix::io::Errno;
use rustix::process::{self as system, WaitOptions};

use crate::signals::{HEARD, STOPPING};

/// The processes that get a signal.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Whom {
    All,
    /// Those that are not in dlock's process group.
    OtherGroups,
}

/// The processes of a command that was started.
pub struct Processes {
    pub first: Pid,
    /// The end of the first one. Until then its number is not reused for another process.
    pub ended: Option<ExitStatus>,
    /// True if the terminal has stopped a child of dlock.
    pub stopped: bool,
    /// Children of the program that became dlock: they are not the command's.
    others: BTreeSet<Pid>,
}

impl Processes {
    /// Starts a command.
    pub fn start(command: &mut Command) -> io::Result<Processes> {
        set_child_subreaper(true)?;
        let others = own_children().unwrap_or_default();
        let first = command.spawn()?.id();
        Ok(Processes {
            first: Pid::from_raw(first.cast_signed()),
            ended: None,
            stopped: false,
            others,
        })
    }

    /// True if no process of the command is left.
    pub fn are_gone(&mut self) -> bool {
        match self.collect() {
            Ok(()) => self.children().is_ok_and(|left| left.is_empty()),
            Err(error) => error == Errno::CHILD,
        }
    }

    /// Collects processes that have ended or stopped. Fails with CHILD if dlock has no children.
    pub fn collect(&mut self) -> Result<(), Errno> {
        // Bounded: a command may start processes faster than one thread can collect them.
        for _ in 0..AT_ONCE {
            let Some((process, status)) = system::wait(WAIT)? else { break };
            let process = Pid::from_raw(process.as_raw_pid());
            if let Some(by) = status.stopping_signal() {
                self.stopped |= STOPPING.iter().any(|&signal| signal as i32 == by);
                continue;
            }
            // Its number is free for a process of the command.
            self.others.remove(&process);
            if self.ended.is_none() && process == self.first {
                self.ended = Some(ExitStatus::from_raw(status.as_raw()));
            }
        }
        Ok(())
    }

    /// Sends a signal to processes of the command. It may miss a process of one that starts them without end. A dlock
    /// among them passes signals on by itself.
    pub fn send(&self, signal: Signal, whom: Whom) {
        let mut sent = BTreeSet::new();
        let passes_on = |process: Pid| HEARD.contains(&signal) && is_dlock(process);
        for _ in 0..AT_ONCE {
            let children = self.children().unwrap_or_else(|_| self.known());
            let all = with_descendants(&children, passes_on);
            // A process may have started another one before it got the signal.
            let new: BTreeSet<Pid> = all.difference(&sent).copied().collect();
            if new.is_empty() {
                return;
            }
            for &process in &new {
                if whom == Whom::OtherGroups && getpgid(Some(process)) == Ok(getpgrp()) {
                    continue;
                }
                // Only dlock collects its children. Another process may have ended, and its number be used again.
                let is_own = |parent| all.contains(&parent) || parent == getpid();
                if children.contains(&process) || parent(process).is_some_and(is_own) {
                    let _ = kill(process, signal);
                }
            }
            sent.extend(new);
        }
    }

    /// The processes that are known without /proc.
    fn known(&self) -> BTreeSet<Pid> {
        self.ended.is_none().then_some(self.first).into_iter().collect()
    }

    fn children(&self) -> io::Result<BTreeSet<Pid>> {
        Ok(own_children()?.difference(&self.others).copied().collect())
    }
}

fn own_children() -> io::Result<BTreeSet<Pid>> {
    let own = fs::read_link("/proc/self")?;
    // Another PID namespace has other numbers.
    if own.to_str() != Some(&getpid().to_string()) {
        return Err(ErrorKind::NotFound.into());
    }
    children(getpid())
}

/// Returns the children of a process, one that has ended and was not collected included.
fn children(parent: Pid) -> io::Result<BTreeSet<Pid>> {
    let mut all = BTreeSet::new();
    for thread in fs::read_dir(format!("/proc/{parent}/task"))? {
        let list = fs::read_to_string(thread?.path().join("children"))?;
        all.extend(list.split_whitespace().filter_map(|pid| pid.parse().ok()).map(Pid::from_raw));
    }
    Ok(all)
}

/// The processes and their descendants, without those of the processes to leave alone.
fn with_descendants(
    processes: &BTreeSet<Pid>,
    leaves_alone: impl Fn(Pid) -> bool,
) -> BTreeSet<Pid> {
    let mut all = processes.clone();
    let mut parents: Vec<Pid> = processes.iter().copied().collect();
    while let Some(parent) = parents.pop() {
        if leaves_alone(parent) {
            continue;
        }
        parents.extend(
            children(parent).unwrap_or_default().into_iter().filter(|&pid| all.insert(pid)),
        );
    }
    all
}

/// True if the process runs this program, perhaps from a file that an upgrade has replaced.
fn is_dlock(process: Pid) -> bool {
    let program = |process: &str| {
        let file = fs::read_link(format!("/proc/{process}/exe")).ok()?.into_os_string();
        Some(file.to_string_lossy().trim_end_matches(" (deleted)").to_owned())
    };
    program(&process.to_string()).is_some_and(|other| Some(other) == program("self"))
}

/// The parent of a process, as /proc shows it.
fn parent(process: Pid) -> Option<Pid> {
    // Bytes, because a process may have any name.
    let stat = fs::read(format!("/proc/{process}/stat")).ok()?;
    read_parent(&String::from_utf8_lossy(&stat))
}

/// Reads `PID (NAME) STATE PARENT …`. The name may contain any bytes.
fn read_parent(stat: &str) -> Option<Pid> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(1)?.parse().ok().map(Pid::from_raw)
}

/// Options of waits: include children that report their end by another signal than SIGCHLD.
const WAIT: WaitOptions = WaitOptions::NOHANG
    .union(WaitOptions::UNTRACED)
    .union(WaitOptions::from_bits_retain(nix::libc::__WALL.cast_unsigned()));

/// Limit of what is done in one go.
const AT_ONCE: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_pretend_to_be_a_parent() {
        assert_eq!(read_parent("4711 (sleep) S 1 4700"), Some(Pid::from_raw(1)));
        assert_eq!(read_parent("4711 (a) Z 9 (b) Z 1 4700"), Some(Pid::from_raw(1)));
        assert_eq!(read_parent("nonsense"), None);
    }
}
