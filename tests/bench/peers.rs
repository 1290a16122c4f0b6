//! The lock libraries that dlock is measured beside, and dlock itself, each as a program with one
//! interface: `contended` and `uncontended`, one JSON object on its standard output.
//!
//! The rules, the same for all:
//! - a process for each library, in it a thread, task or coroutine for each client, and for each
//!   client an object of the library with connections of its own, opened before the clock runs;
//! - each library waits as it does by default: its pauses, its polling, its blocking commands. One
//!   that gives up is asked again at once, since else its waits could not be compared. What is set
//!   is said, with the reason, in the library's file in this folder;
//! - a wait is from asking to having. A hold is as long as the language can make it, and how long
//!   it was on average is shown. Whoever has given back asks again at once;
//! - a wait that is not over at the end counts with its length so far; otherwise starvation would be
//!   hidden. A figure that nobody can know for that reason is shown as "at least";
//! - leases of 10 s for all, far longer than any hold; new servers for each run, with the module
//!   loaded, for all.
//!
//! In reading order: [`closed_loop`], what a program does; [`dlock`], dlock's; [`bare_sockets`], no
//! library at all; [`waits`], what was measured. The others are in `python`, `node` and `rslock`;
//! scripts/peers.sh installs them.

pub mod bare_sockets;
mod closed_loop;
pub mod dlock;
mod waits;

use std::env;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use harness::{Server, process};
use nix::sys::prctl::set_timerslack;
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
    /// Its first word.
    This(&'static str),
    Rust,
    Node,
    Python(&'static str),
}

/// Ours.
pub const DLOCK: Peer =
    Peer { name: "dlock (Rust)", program: Program::This(dlock::WORD), several_nodes: true };

/// Our commands without our library: what is left is the queue in the server.
pub const COMMANDS: Peer = Peer {
    name: "DLOCK by redis-py (Python)",
    program: Program::Python("dlock_commands.py"),
    several_nodes: false,
};

/// Our commands without any library.
pub const BARE: Peer =
    Peer { name: "bare sockets", program: Program::This(bare_sockets::WORD), several_nodes: true };

/// Theirs, first the one in our language.
pub const PEERS: [Peer; 4] = [
    Peer { name: "rslock (Rust)", program: Program::Rust, several_nodes: true },
    Peer { name: "@sesamecare-oss/redlock (Node)", program: Program::Node, several_nodes: true },
    Peer {
        name: "redis-py (Python)",
        program: Program::Python("redis_py.py"),
        several_nodes: false,
    },
    Peer {
        name: "python-redis-lock (Python)",
        program: Program::Python("python_redis_lock.py"),
        several_nodes: false,
    },
];

/// Over how many nodes they are compared; the second number only where a library can.
pub const NODES: [usize; 2] = [1, 5];

/// In words.
pub fn so_many_nodes(nodes: usize) -> String {
    format!("{nodes} node{}", if nodes == 1 { "" } else { "s" })
}

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
    for peer in PEERS.iter().chain([&COMMANDS]) {
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
        let key = format!("{}x{}ms", crowd.clients, crowd.hold.as_millis());
        let (figures, said) = self.run("contended", servers, &key, &words, crowd.seconds)?;
        let mut waits = Waits::read(&figures).map_err(|why| format!("{}: {why}", self.name))?;
        let complaint = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
        waits.complaint = complaint.trim().to_owned();
        Ok(waits)
    }

    /// How long one client takes for each of so many locks that nobody else wants, in microseconds,
    /// after it has done nothing else for a second: what compiles while it runs is then compiled.
    pub fn uncontended(&self, servers: &[Server], rounds: usize) -> Result<Vec<f64>, String> {
        let words = [("--rounds", rounds.to_string()), ("--warm-up-ms", "1000".to_owned())];
        let (figures, _) = self.run("uncontended", servers, "free", &words, 1)?;
        let list = waits::numbers(&figures["acquire_us"]).filter(|list| list.len() == rounds);
        list.ok_or_else(|| format!("{} printed nonsense: {figures}", self.name))
    }

    /// What it prints, and what it says besides.
    fn run(
        &self,
        part: &str,
        servers: &[Server],
        key: &str,
        words: &[(&str, String)],
        seconds: u64,
    ) -> Result<(Value, String), String> {
        let nodes: Vec<String> =
            servers.iter().map(|server| format!("127.0.0.1:{}", server.port())).collect();
        let key = format!("bench:{}:{key}:{}", self.name, nodes.len()).replace(' ', "-");
        let mut command = self.program.command();
        command.args([part, "--nodes", &nodes.join(","), "--key", &key, "--ttl-ms", "10000"]);
        for (name, value) in words {
            command.args([name, value.as_str()]);
        }
        let limit = Duration::from_secs(seconds) + PATIENCE;
        let output = output(command, limit);
        let (printed, said) = output.map_err(|why| format!("{} failed: {why}", self.name))?;
        let nonsense = |error| format!("{} printed nonsense, {error}: {printed:.200}", self.name);
        Ok((serde_json::from_str(&printed).map_err(nonsense)?, said))
    }
}

/// What a peer may take to start, to connect and to end.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a program prints until it ends, with success and in time, and the end of what it says on its
/// standard error.
fn output(mut command: Command, limit: Duration) -> Result<(String, String), String> {
    let scratch = || tempfile::tempfile().map_err(|error| error.to_string());
    let [mut out, mut err] = [scratch()?, scratch()?];
    let shared = |file: &File| file.try_clone().map_err(|error| error.to_string());
    command.stdin(Stdio::null()).stdout(shared(&out)?).stderr(shared(&err)?);
    end_sleeps_in_time(&mut command);
    let child = process::spawn(command);
    let mut child = child.map_err(|error| format!("{error}: run scripts/peers.sh"))?;
    let deadline = Instant::now() + limit;
    let status = loop {
        match child.try_wait().map_err(|error| error.to_string())? {
            Some(status) => break status,
            None if Instant::now() > deadline => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("no answer in {limit:?}\n{}", end(&text(&mut err))));
            }
            None => thread::sleep(Duration::from_millis(5)),
        }
    };
    let said = end(&text(&mut err));
    if status.success() { Ok((text(&mut out), said)) } else { Err(format!("{status}\n{said}")) }
}

fn text(file: &mut File) -> String {
    let mut bytes = Vec::new();
    let read = file.rewind().and_then(|()| file.read_to_end(&mut bytes));
    read.map_or_else(|error| error.to_string(), |_| String::from_utf8_lossy(&bytes).into_owned())
}

/// The last two kilobytes: a hundred clients may complain without end.
fn end(text: &str) -> String {
    let start = (text.len().saturating_sub(2048)..).find(|place| text.is_char_boundary(*place));
    text[start.unwrap_or(0)..].to_owned()
}

/// The kernel lets a sleep last 50 µs longer, to wake up less often. Not in these programs: a hold
/// of a millisecond is then a millisecond, for every library. The servers are left as they are.
fn end_sleeps_in_time(command: &mut Command) {
    let in_time = || set_timerslack(1).map_err(io::Error::from);
    // SAFETY: between fork and exec the closure makes one system call and allocates nothing.
    unsafe { command.pre_exec(in_time) };
}

impl Program {
    /// What is run, and the file that it is given to run, if they are installed by us.
    fn files(&self) -> (Option<PathBuf>, Option<PathBuf>) {
        let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("bench/peers");
        let there = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.peers");
        match self {
            Program::This(_) => (env::current_exe().ok(), None),
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
            Program::This(word) => command.arg(word),
            // It would leave compiled files beside the sources.
            Program::Python(_) => command.env("PYTHONDONTWRITEBYTECODE", "1"),
            _ => &mut command,
        };
        command.args(file);
        command
    }
}
