//! The lock libraries that dlock is measured beside, and dlock itself, each as a program with one
//! interface: `contended` and `uncontended`, one JSON object on its standard output.
//!
//! The rules, the same for all:
//! - a process for each library, in it a thread, task or coroutine for each client, and for each
//!   client an object of the library with connections of its own, opened before the clock runs;
//! - each library waits as it does by default: its pauses, its polling, its blocking commands. One
//!   that would give up is set to go on, since else its waits could not be compared. What is set is
//!   said, with the reason, in the library's file in this folder;
//! - a wait is from asking to having. A hold is as long as the language can make it, and how long
//!   it was on average is shown. Whoever has given back asks again at once;
//! - when the time is over, whoever waits still is counted with what he has waited until then: else
//!   who starves would not be seen. A figure that is such a wait is shown as "at least";
//! - leases of 10 s for all, far longer than any hold; the same servers, with the module loaded,
//!   for all.
//!
//! In reading order: [`closed_loop`], what a program does; [`dlock`], dlock's; [`waits`], what was
//! measured. The others are in `python`, `node` and `rslock`; scripts/peers.sh installs them.

#[path = "peers/closed_loop.rs"]
mod closed_loop;
#[path = "peers/dlock.rs"]
pub mod dlock;
#[path = "peers/waits.rs"]
mod waits;

use std::env;
use std::fs::File;
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use harness::{Server, process};
use serde_json::Value;

pub use waits::{Wait, Waits};

/// A library in the comparison.
pub struct Peer {
    /// Its name in tables.
    pub name: &'static str,
    program: Program,
    /// Whether it can ask several nodes for one lock.
    pub several_nodes: bool,
}

enum Program {
    This,
    Rust,
    Node,
    Python(&'static str),
}

/// Ours.
pub const DLOCK: Peer = Peer { name: "dlock", program: Program::This, several_nodes: true };

/// Our commands without our library: what is left is the queue in the server.
pub const COMMANDS: Peer = Peer {
    name: "DLOCK by redis-py",
    program: Program::Python("dlock_commands.py"),
    several_nodes: false,
};

/// Theirs.
pub const PEERS: [Peer; 4] = [
    Peer { name: "rslock", program: Program::Rust, several_nodes: true },
    Peer { name: "node-redlock", program: Program::Node, several_nodes: true },
    Peer { name: "redis-py", program: Program::Python("redis_py.py"), several_nodes: false },
    Peer {
        name: "python-redis-lock",
        program: Program::Python("python_redis_lock.py"),
        several_nodes: false,
    },
];

/// What many clients of one library do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Crowd {
    /// How many they are.
    pub clients: u64,
    /// How long each holds the lock.
    pub hold: Duration,
    /// For how long they go on.
    pub seconds: u64,
}

/// Says what is missing, if anything is.
pub fn installed() -> Result<(), String> {
    for peer in &PEERS {
        let (program, file) = peer.program.files();
        let missing = [program, file].into_iter().flatten().find(|path| !path.exists());
        if let Some(path) = missing {
            let (name, path) = (peer.name, path.display());
            return Err(format!(
                "{name} is not installed, {path} is missing: run scripts/peers.sh"
            ));
        }
    }
    Ok(())
}

impl Peer {
    /// Many clients want one lock, over these nodes.
    pub fn contended(&self, servers: &[Server], crowd: Crowd) -> Result<Waits, String> {
        let words = [
            ("--clients", crowd.clients.to_string()),
            ("--hold-us", crowd.hold.as_micros().to_string()),
            ("--seconds", crowd.seconds.to_string()),
        ];
        let figures = self.run("contended", servers, &words, crowd.seconds)?;
        Waits::read(&figures).map_err(|why| format!("{} printed nonsense: {why}", self.name))
    }

    /// How long one client takes for each of so many locks that nobody else wants, in microseconds.
    pub fn uncontended(&self, servers: &[Server], rounds: usize) -> Result<Vec<f64>, String> {
        let words = [("--rounds", rounds.to_string())];
        let figures = self.run("uncontended", servers, &words, 0)?;
        let list = waits::numbers(&figures["acquire_us"]).filter(|list| list.len() == rounds);
        list.ok_or_else(|| format!("{} printed nonsense: {figures}", self.name))
    }

    fn run(
        &self,
        part: &str,
        servers: &[Server],
        words: &[(&str, String)],
        seconds: u64,
    ) -> Result<Value, String> {
        let nodes: Vec<String> =
            servers.iter().map(|server| format!("127.0.0.1:{}", server.port())).collect();
        let key = format!("bench:{}:{}:{}", self.name, part, nodes.len()).replace(' ', "-");
        let mut command = self.program.command();
        command.args([part, "--nodes", &nodes.join(","), "--key", &key, "--ttl-ms", "10000"]);
        for (name, value) in words {
            command.args([name, value.as_str()]);
        }
        let limit = Duration::from_secs(seconds) + PATIENCE;
        let said = output(command, limit).map_err(|why| format!("{} failed: {why}", self.name))?;
        let figures = serde_json::from_str(&said);
        figures.map_err(|error| format!("{} printed nonsense, {error}: {said:.200}", self.name))
    }
}

/// What a peer may take to start, to connect and to end.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a program prints until it ends, with success and in time.
fn output(mut command: Command, limit: Duration) -> Result<String, String> {
    let scratch = || tempfile::tempfile().map_err(|error| error.to_string());
    let [mut out, mut err] = [scratch()?, scratch()?];
    let shared = |file: &File| file.try_clone().map_err(|error| error.to_string());
    command.stdin(Stdio::null()).stdout(shared(&out)?).stderr(shared(&err)?);
    let child = process::spawn(command);
    let mut child = child.map_err(|error| format!("{error}: run scripts/peers.sh"))?;
    let deadline = Instant::now() + limit;
    let status = loop {
        match child.try_wait().map_err(|error| error.to_string())? {
            Some(status) => break status,
            None if Instant::now() > deadline => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("no answer in {limit:?}\n{}", text(&mut err)));
            }
            None => thread::sleep(Duration::from_millis(5)),
        }
    };
    if status.success() { Ok(text(&mut out)) } else { Err(format!("{status}\n{}", text(&mut err))) }
}

fn text(file: &mut File) -> String {
    let mut bytes = Vec::new();
    let read = file.rewind().and_then(|()| file.read_to_end(&mut bytes));
    read.map_or_else(|error| error.to_string(), |_| String::from_utf8_lossy(&bytes).into_owned())
}

impl Program {
    /// What is run, and the file that it is given to run, if they are installed by us.
    fn files(&self) -> (Option<PathBuf>, Option<PathBuf>) {
        let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("bench/peers");
        let there = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.peers");
        match self {
            Program::This => (env::current_exe().ok(), None),
            Program::Rust => (Some(there.join("rust/release/rslock-peer")), None),
            Program::Node => {
                (Some(there.join("node/node_modules")), Some(here.join("node/redlock.js")))
            }
            Program::Python(name) => {
                (Some(there.join("python/bin/python")), Some(here.join("python").join(name)))
            }
        }
    }

    fn command(&self) -> Command {
        let (program, file) = self.files();
        let program = program.expect("a program knows where it is");
        let mut command = match self {
            Program::Node => {
                let mut command = Command::new("node");
                command.env("NODE_PATH", program);
                command
            }
            _ => Command::new(program),
        };
        match self {
            Program::This => command.arg(dlock::WORD),
            // It would leave compiled files beside the sources.
            Program::Python(_) => command.env("PYTHONDONTWRITEBYTECODE", "1"),
            _ => &mut command,
        };
        command.args(file);
        command
    }
}
