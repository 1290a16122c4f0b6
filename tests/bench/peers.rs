//! The lock libraries that dlock is measured beside, and dlock itself, each as a program with one interface:
//! `contended` and `uncontended`, one JSON object on its standard output.
//!
//! The rules, the same for all:
//! - a process for each library, in it a thread, task or coroutine for each client. Each client has an object
//!   of the library with connections of its own, opened before the clock runs;
//! - each library waits as it does by default: its pauses, its polling, its blocking commands. One that gives
//!   up is asked again at once, since else its waits could not be compared. The library's file in this folder
//!   names each setting, with the reason;
//! - a wait lasts from the request to the grant. A hold is as long as the language can make it, and its
//!   average is shown. A client that has released asks again at once;
//! - a wait that is not over at the end counts with its length so far; otherwise starvation would be hidden;
//! - leases of 10 s for all, far longer than any hold; new servers for each run, with the module loaded, for
//!   all.
//!
//! In reading order: [`closed_loop`], what a program does; [`dlock`], dlock's; [`bare_sockets`], no library
//! at all; [`waits`], what was measured. The others are in `python`, `node` and `rslock`; scripts/peers.sh
//! installs them.

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

use harness::{Agent, process};
use nix::sys::prctl::set_timerslack;
use serde_json::Value;

pub use waits::Waits;

/// A library in the comparison.
#[derive(Debug)]
pub struct Peer {
    /// Its name in tables.
    pub name: &'static str,
    program: Program,
    /// The numbers of nodes in the comparison.
    pub nodes: &'static [usize],
}

#[derive(Debug)]
enum Program {
    /// Its first word.
    This(&'static str),
    /// Its file's name.
    Rust(&'static str),
    Node,
    Python(&'static str),
    /// The same, with the socket of a `dlock agent` in place of the nodes.
    PythonAtAgent(&'static str),
}

impl Peer {
    const fn new(name: &'static str, program: Program, nodes: &'static [usize]) -> Peer {
        Peer { name, program, nodes }
    }
}

/// Ours.
pub const DLOCK: Peer = Peer::new("dlock (Rust)", Program::This(dlock::WORD), &NODES);

/// Our commands without our library: only the queue in the server.
pub const COMMANDS: Peer =
    Peer::new("DLOCK by redis-py (Python)", Program::Python("dlock_commands.py"), &[1]);

/// The same at an agent, over the unix socket.
pub const AT_AGENT: Peer = Peer::new(
    "dlock agent by redis-py (Python)",
    Program::PythonAtAgent("dlock_commands.py"),
    &NODES,
);

/// Two bare round trips to an agent.
pub const TRIPS: Peer = Peer::new("two PINGs", Program::PythonAtAgent("pings.py"), &NODES);

/// Our commands without any library.
pub const BARE: Peer = Peer::new("bare sockets", Program::This(bare_sockets::WORD), &NODES);

/// Other libraries. The first one is in our language.
pub const PEERS: [Peer; 4] = [
    Peer::new("rslock (Rust)", Program::Rust("rslock-peer"), &NODES),
    Peer::new("@sesamecare-oss/redlock (Node.js)", Program::Node, &NODES),
    Peer::new("redis-py (Python)", Program::Python("redis_py.py"), &[1]),
    Peer::new("python-redis-lock (Python)", Program::Python("python_redis_lock.py"), &[1]),
];

/// The numbers of nodes in the comparison.
pub const NODES: [usize; 2] = [1, 5];

/// The number of nodes, in words.
pub fn so_many_nodes(nodes: usize) -> String {
    format!("{nodes} node{}", if nodes == 1 { "" } else { "s" })
}

/// The clients of one library.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Crowd {
    /// The number of clients.
    pub clients: u64,
    /// Each holds the lock this long.
    pub hold: Duration,
    /// The clients go on this long, in seconds.
    pub seconds: u64,
}

impl Peer {
    /// Names what is missing, if anything is.
    pub fn installed(&self) -> Result<(), String> {
        let (program, file) = self.program.files();
        let missing = [program, file].into_iter().flatten().find(|path| !path.exists());
        match missing.map(|path| path.display().to_string()) {
            Some(file) => Err(format!("not installed, {file} is missing: run scripts/peers.sh")),
            None => Ok(()),
        }
    }

    /// Many clients want one lock, over nodes with these addresses.
    pub fn contended(&self, nodes: &[String], crowd: Crowd) -> Result<Waits, String> {
        let words = [
            ("--clients", crowd.clients.to_string()),
            ("--hold-us", crowd.hold.as_micros().to_string()),
            ("--seconds", crowd.seconds.to_string()),
        ];
        let key = format!("{}x{}ms", crowd.clients, crowd.hold.as_millis());
        let (figures, said) = self.run("contended", nodes, &key, &words, crowd.seconds)?;
        let mut waits = Waits::read(&figures).map_err(|why| format!("{}: {why}", self.name))?;
        let complaint = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
        waits.complaint = complaint.trim().to_owned();
        Ok(waits)
    }

    /// The time that one client takes for each of this many uncontended locks, in microseconds. A second of
    /// the same work comes before, so that code is compiled where that happens at run time.
    pub fn uncontended(&self, nodes: &[String], rounds: usize) -> Result<Vec<f64>, String> {
        self.alone("acquire_us", nodes, rounds)
    }

    /// The same until each lock is released.
    pub fn pairs(&self, nodes: &[String], rounds: usize) -> Result<Vec<f64>, String> {
        self.alone("pair_us", nodes, rounds)
    }

    fn alone(&self, figure: &str, nodes: &[String], rounds: usize) -> Result<Vec<f64>, String> {
        let words = [("--rounds", rounds.to_string()), ("--warm-up-ms", "1000".to_owned())];
        let (figures, _) = self.run("uncontended", nodes, "free", &words, 1)?;
        let list = waits::numbers(&figures[figure]).filter(|list| list.len() == rounds);
        list.ok_or_else(|| format!("{} printed nonsense: {figures}", self.name))
    }

    /// Runs the peer. Returns its output, and the end of its standard error.
    fn run(
        &self,
        part: &str,
        nodes: &[String],
        key: &str,
        words: &[(&str, String)],
        seconds: u64,
    ) -> Result<(Value, String), String> {
        let key = format!("bench:{}:{key}:{}", self.name, nodes.len()).replace(' ', "-");
        let at_agent = matches!(self.program, Program::PythonAtAgent(_));
        let agent = at_agent.then(|| Agent::start(nodes));
        let socket = agent.as_ref().map(|agent| format!("unix://{}", agent.socket().display()));
        let nodes = socket.unwrap_or_else(|| nodes.join(","));
        let mut command = self.program.command();
        command.args([part, "--nodes", &nodes, "--key", &key, "--ttl-ms", "10000"]);
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

/// A peer may take this long to start, to connect and to end.
const PATIENCE: Duration = Duration::from_secs(60);

/// The output of a program until it ends, with success and in time, and the end of its standard
/// error.
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

/// The kernel lets a sleep last 50 µs longer, to wake up less often. Not in these programs: a hold of a
/// millisecond is then a millisecond, for every library. The servers are left as they are.
fn end_sleeps_in_time(command: &mut Command) {
    let in_time = || set_timerslack(1).map_err(io::Error::from);
    // SAFETY: between fork and exec the closure makes one system call and allocates nothing.
    unsafe { command.pre_exec(in_time) };
}

impl Program {
    /// The program and its file, if we have installed them.
    fn files(&self) -> (Option<PathBuf>, Option<PathBuf>) {
        let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("bench/peers");
        let there = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.peers");
        match self {
            Program::This(_) => (env::current_exe().ok(), None),
            Program::Rust(name) => (Some(there.join("rust/release").join(name)), None),
            Program::Node => {
                let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("nodejs/node_modules");
                (Some(tools), Some(here.join("node/redlock.js")))
            }
            Program::Python(name) | Program::PythonAtAgent(name) => {
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
            // Python would leave compiled files beside the sources.
            Program::Python(_) | Program::PythonAtAgent(_) => {
                command.env("PYTHONDONTWRITEBYTECODE", "1")
            }
            _ => &mut command,
        };
        command.args(file);
        command
    }
}
