//! Sentinels that watch a primary, and promote a replica when the primary does not answer.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use nix::sys::signal::Signal;
use tempfile::TempDir;

use crate::client::Client;
use crate::kind::Kind;
use crate::scratch;
use crate::server::Server;
use crate::value::Value;
use crate::wait::eventually;
use crate::{ports, process};

/// The Sentinels' name for the primary.
pub const NAME: &str = "watched";
/// Sentinels consider the primary down after this many milliseconds without an answer.
pub const DOWN_AFTER: u64 = 1_000;

/// A running Sentinel. Dropping it kills the process.
pub struct Sentinel {
    child: Child,
    kind: Kind,
    port: u16,
    folder: TempDir,
}

impl Sentinel {
    /// Starts one beside a primary and its replicas, and waits until it has found them all. It decides alone,
    /// a second after the primary's last answer.
    #[track_caller]
    pub fn start(primary: &Server, replicas: usize) -> Sentinel {
        let mut all = Sentinel::start_some(primary, replicas, 1);
        all.pop().expect("there is one")
    }

    /// Starts this many, and waits until they have found each other and everything else. A majority of them
    /// decides.
    #[track_caller]
    pub fn start_some(primary: &Server, replicas: usize, count: usize) -> Vec<Sentinel> {
        let needed = count / 2 + 1;
        let all: Vec<Sentinel> =
            (0..count).map(|_| Sentinel::spawn(primary.kind(), primary.port(), needed)).collect();
        eventually("Sentinels know the primary, its replicas and each other", || {
            all.iter().all(|one| one.knows(replicas, count - 1).unwrap_or(false))
        });
        all
    }

    /// Starts one that watches this port, whatever is there.
    pub fn spawn(kind: Kind, primary: u16, needed: usize) -> Sentinel {
        Sentinel::spawn_with(kind, primary, needed, &[])
    }

    /// The same with more lines in its configuration.
    pub fn spawn_with(kind: Kind, primary: u16, needed: usize, more: &[String]) -> Sentinel {
        let folder = scratch::folder();
        let port = ports::free();
        let config = folder.path().join("sentinel.conf");
        let text = config_text(port, primary, needed) + &more.join("\n") + "\n";
        fs::write(&config, text).expect("the folder can be written");
        let child = run(kind, &folder);
        let sentinel = Sentinel { child, kind, port, folder };
        eventually("Sentinel listens", || Client::connect(port).is_ok());
        sentinel
    }

    /// Starts it again after it was killed, with its stored state.
    pub fn start_again(&mut self) {
        self.child = run(self.kind, &self.folder);
        eventually("Sentinel listens", || Client::connect(self.port).is_ok());
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The port of the primary, in its view.
    #[track_caller]
    pub fn primary(&self) -> u16 {
        let address = self.run(&format!("SENTINEL GET-MASTER-ADDR-BY-NAME {NAME}"));
        address.items()[1].text().parse().expect("a port")
    }

    /// Runs a command on a connection of its own.
    #[track_caller]
    pub fn run(&self, words: &str) -> Value {
        Client::connect(self.port).expect("Sentinel listens").run(words)
    }

    /// Pauses it at once.
    pub fn pause(&self) {
        process::signal(&self.child, Signal::SIGSTOP);
    }

    /// Lets it go on.
    pub fn resume(&self) {
        process::signal(&self.child, Signal::SIGCONT);
    }

    /// Sets the milliseconds without an answer after which it considers the primary down.
    pub fn take_for_dead_after(&self, millis: u64) {
        self.run(&format!("SENTINEL SET {NAME} down-after-milliseconds {millis}"));
    }

    /// Ends it at once.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// True if the Sentinel has found this many replicas that follow the primary, and this many other
    /// Sentinels.
    pub fn knows(&self, replicas: usize, others: usize) -> Option<bool> {
        let mut client = Client::connect(self.port).ok()?;
        let state = client.run(&format!("SENTINEL MASTER {NAME}"));
        let followers = client.run(&format!("SENTINEL REPLICAS {NAME}"));
        let is_up = |replica: &Value| {
            let state = replica.map();
            state["flags"].text() == "slave" && state["master-link-status"].text() == "ok"
        };
        let up = followers.items().iter().filter(|replica| is_up(replica)).count();
        let met = state.at("num-other-sentinels").text() == others.to_string();
        Some(state.at("flags").text() == "master" && up == replicas && met)
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            let log = fs::read_to_string(log_file(&self.folder)).unwrap_or_default();
            eprintln!("--- Sentinel, port {}:\n{log}---", self.port);
        }
    }
}

fn run(kind: Kind, folder: &TempDir) -> Child {
    let log = File::create(log_file(folder)).expect("the folder can be written");
    let mut command = Command::new(kind.executable());
    command
        .arg(folder.path().join("sentinel.conf"))
        .arg("--sentinel")
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .stderr(log.try_clone().expect("a file can be shared"))
        .stdout(log);
    process::spawn(command).expect("a Sentinel can be started")
}

fn config_text(port: u16, primary: u16, needed: usize) -> String {
    [
        "bind 127.0.0.1".to_owned(),
        format!("port {port}"),
        format!("sentinel monitor {NAME} 127.0.0.1 {primary} {needed}"),
        format!("sentinel down-after-milliseconds {NAME} {DOWN_AFTER}"),
        format!("sentinel failover-timeout {NAME} 5000"),
    ]
    .join("\n")
        + "\n"
}

fn log_file(folder: &TempDir) -> PathBuf {
    folder.path().join("sentinel.log")
}
