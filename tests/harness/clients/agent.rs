//! `dlock agent` at a unix socket of its own.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::sys::signal::Signal;
use tempfile::TempDir;

use crate::running::Running;
use crate::{Client, eventually, program, scratch};

/// An agent. Dropping it ends it.
pub struct Agent {
    /// `None` once it has ended.
    running: Option<Running>,
    folder: TempDir,
    arguments: Vec<String>,
}

impl Agent {
    /// Starts it with these nodes.
    #[track_caller]
    pub fn start(nodes: &[String]) -> Agent {
        Agent::with(nodes, &[])
    }

    /// Starts it with these arguments, too.
    #[track_caller]
    pub fn with(nodes: &[String], arguments: &[&str]) -> Agent {
        let folder = scratch::folder();
        let running = Some(start(nodes, folder.path(), arguments));
        let arguments = arguments.iter().map(|&argument| argument.to_owned()).collect();
        Agent { running, folder, arguments }
    }

    /// Starts it once more at the same socket and with the same arguments, after its end.
    #[track_caller]
    pub fn start_again(&mut self, nodes: &[String]) {
        assert!(self.running.is_none(), "it has ended");
        let arguments: Vec<&str> = self.arguments.iter().map(String::as_str).collect();
        self.running = Some(start(nodes, self.folder.path(), &arguments));
    }

    /// Its socket.
    pub fn socket(&self) -> PathBuf {
        socket(self.folder.path())
    }

    /// A new connection.
    #[track_caller]
    pub fn client(&self) -> Client {
        Client::connect_unix(&self.socket()).expect("the agent accepts connections")
    }

    /// Sends a request over a connection of its own.
    #[track_caller]
    pub fn run(&self, words: &str) -> crate::Value {
        self.client().run(words)
    }

    /// A figure of the agent in INFO.
    #[track_caller]
    pub fn figure(&self, name: &str) -> u64 {
        let info = self.run("INFO").text();
        let line = info.lines().find_map(|line| line.strip_prefix(&format!("dlock_agent_{name}:")));
        line.and_then(|number| number.trim().parse().ok()).expect("the agent has such a figure")
    }

    /// The process.
    #[track_caller]
    pub fn running(&self) -> &Running {
        self.running.as_ref().expect("it has not ended")
    }

    /// Ends it with this signal, and waits for its end.
    #[track_caller]
    pub fn end(&mut self, signal: Signal) {
        let running = self.running.take().expect("it has not ended");
        running.signal(signal);
        running.ended();
    }

    /// Waits until it has ended.
    #[track_caller]
    pub fn until_ended(&mut self) {
        self.running.take().expect("it was not waited for").ended();
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            running.signal(Signal::SIGKILL);
        }
    }
}

fn socket(folder: &Path) -> PathBuf {
    folder.join("agent.sock")
}

#[track_caller]
fn start(nodes: &[String], folder: &Path, arguments: &[&str]) -> Running {
    let mut command: Command = program::command(nodes);
    let listen = format!("unix:{}", socket(folder).display());
    command.args(["agent", "--listen", &listen]).args(arguments);
    if !arguments.contains(&"--node-timeout") {
        command.args(["--node-timeout", program::PATIENT]);
    }
    let running = Running::of(command);
    eventually("the agent listens", || UnixStream::connect(socket(folder)).is_ok());
    running
}
