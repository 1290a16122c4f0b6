//! A server's system calls, watched or made to fail with strace.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use nix::sys::signal::Signal;

use crate::builder::Builder;
use crate::process;
use crate::server::Server;
use crate::wait::eventually;

const RECORD: &str = "system-calls";

/// A system call that a server made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SystemCall {
    /// The thread's number; the main thread has the number of the process.
    pub thread: u32,
    /// The call as strace shows it, files with their paths.
    pub text: String,
}

impl SystemCall {
    /// True if the call waits until something is on the disk.
    pub fn syncs(&self) -> bool {
        ["fsync(", "fdatasync(", "sync_file_range("].iter().any(|name| self.text.starts_with(name))
    }

    /// True if the call gives a file another name.
    pub fn renames(&self) -> bool {
        self.text.starts_with("rename")
    }
}

impl Builder {
    /// Records these system calls of the server: see [`Server::system_calls`].
    pub fn watched(self, calls: &str) -> Builder {
        let trace = format!("trace={calls}");
        // strace is the child, and the server keeps its process id.
        self.through(&[
            "strace",
            "-D",
            "-f",
            "-q",
            "-y",
            "--seccomp-bpf",
            "-o",
            RECORD,
            "-e",
            &trace,
        ])
    }
}

impl Server {
    /// The system calls of a watched server so far, over all its starts.
    #[track_caller]
    pub fn system_calls(&self) -> Vec<SystemCall> {
        let record = fs::read_to_string(self.folder().join(RECORD)).expect("it is watched");
        let calls = record.lines().filter_map(|line| {
            let (thread, text) = line.split_once(' ')?;
            let thread = thread.parse().ok()?;
            Some(SystemCall { thread, text: text.trim_start().to_owned() })
        });
        calls.collect()
    }
}

/// System calls that fail, or take long, until this ends.
pub struct Fault {
    strace: Option<Child>,
}

impl Fault {
    /// Makes these calls of a running server fail, as in `("fsync,fdatasync", "error=EIO")`. With files: only
    /// calls that name one of them.
    #[track_caller]
    pub fn inject(server: &Server, calls: &str, fault: &str, files: &[&Path]) -> Fault {
        let messages = server.folder().join("strace.log");
        let mut command = Command::new("strace");
        command.args(["-f", "-p", &server.process_id().to_string()]);
        command.arg("-o").arg(server.folder().join("faults"));
        command.args(["-e", &format!("trace={calls}"), "-e", &format!("inject={calls}:{fault}")]);
        for file in files {
            command.arg("-P").arg(file);
        }
        let stderr = File::create(&messages).expect("the folder can be written");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr);
        let strace = process::spawn(command).expect("strace is missing: run `make setup`");
        let mut fault = Fault { strace: Some(strace) };
        eventually("strace is attached", || {
            let text = fs::read_to_string(&messages).unwrap_or_default();
            assert!(!fault.has_ended(), "strace: {text}");
            text.contains(" attached")
        });
        fault
    }

    /// Ends it. strace has left the server when this returns.
    pub fn end(mut self) {
        self.detach();
    }

    fn has_ended(&mut self) -> bool {
        self.strace.as_mut().is_none_or(|strace| !matches!(strace.try_wait(), Ok(None)))
    }

    /// Asks strace to end. Killed outright, it might leave a call half changed.
    fn detach(&mut self) {
        if self.has_ended() {
            return;
        }
        if let Some(mut strace) = self.strace.take() {
            process::signal(&strace, Signal::SIGTERM);
            let _ = strace.wait();
        }
    }
}

impl Drop for Fault {
    fn drop(&mut self) {
        self.detach();
    }
}
