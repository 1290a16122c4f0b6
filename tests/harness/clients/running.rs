//! The program, as `dlock run` or another subcommand, that goes on while the test looks at it.

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use nix::sys::signal::Signal;

use crate::program::{self, PATIENT, Said};
use crate::quorum::Quorum;
use crate::{eventually, process};

/// Runs `dlock run` with these nodes to its end.
#[track_caller]
pub fn run<A: AsRef<OsStr>>(quorum: &Quorum, arguments: &[A]) -> Said {
    Running::start(quorum, arguments).ended()
}

/// Runs a subcommand with these nodes to its end.
#[track_caller]
pub fn dlock<A: AsRef<OsStr>>(quorum: &Quorum, arguments: &[A]) -> Said {
    program::run(program::command(&quorum.urls()).args(["--node-timeout", PATIENT]).args(arguments))
}

/// A program that runs.
pub struct Running {
    child: Child,
    out: Stream,
    err: Stream,
}

impl Running {
    /// Starts `dlock run` with these nodes, without input.
    #[track_caller]
    pub fn start<A: AsRef<OsStr>>(quorum: &Quorum, arguments: &[A]) -> Running {
        let mut command = program::command(&quorum.urls());
        command.args(["--node-timeout", PATIENT, "run"]).args(arguments);
        Running::of(command)
    }

    /// Starts a command, without input unless it has one.
    #[track_caller]
    pub fn of(mut command: Command) -> Running {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = process::spawn(command).expect("it can be started");
        let out = Stream::read(child.stdout.take().expect("it is a pipe"));
        let err = Stream::read(child.stderr.take().expect("it is a pipe"));
        Running { child, out, err }
    }

    /// Gives it some of its input.
    #[track_caller]
    pub fn write(&mut self, bytes: &[u8]) {
        let input = self.child.stdin.as_mut().expect("its input is a pipe");
        input.write_all(bytes).expect("it reads");
        input.flush().expect("it reads");
    }

    /// Waits until it, or its command, has printed this.
    #[track_caller]
    pub fn until_it_prints(&self, text: &str) {
        eventually(&format!("it prints {text:?}"), || self.out().contains(text));
    }

    /// Waits until it has printed this on stderr.
    #[track_caller]
    pub fn until_it_complains(&self, text: &str) {
        eventually(&format!("it complains {text:?}"), || self.err().contains(text));
    }

    /// The program's output so far.
    pub fn out(&self) -> String {
        String::from_utf8_lossy(&self.out.so_far()).into_owned()
    }

    /// The program's stderr so far.
    pub fn err(&self) -> String {
        String::from_utf8_lossy(&self.err.so_far()).into_owned()
    }

    /// Sends a signal to it alone.
    pub fn signal(&self, signal: Signal) {
        process::signal(&self.child, signal);
    }

    /// Its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// True once the program has ended. After that, no signal may be sent to it.
    #[track_caller]
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("a child can be asked").is_some()
    }

    /// Waits until it has ended, and every process that has its output, too. A signal that ended it is shown
    /// as shells show it.
    #[track_caller]
    pub fn ended(mut self) -> Said {
        drop(self.child.stdin.take());
        let mut status = None;
        eventually("it ends", || {
            status = self.child.try_wait().expect("a child can be asked");
            status.is_some()
        });
        let status = status.expect("it has ended");
        let code = status.code().or(status.signal().map(|signal| 128 + signal));
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Said { code, out: text(self.out.all()), err: text(self.err.all()) }
    }
}

/// An output of the program, read all the time.
struct Stream {
    bytes: Arc<Mutex<Vec<u8>>>,
    reader: JoinHandle<()>,
}

impl Stream {
    fn read(mut from: impl Read + Send + 'static) -> Stream {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let into = Arc::clone(&bytes);
        let reader = thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(length @ 1..) = from.read(&mut buffer) {
                into.lock().unwrap().extend_from_slice(&buffer[..length]);
            }
        });
        Stream { bytes, reader }
    }

    fn so_far(&self) -> Vec<u8> {
        self.bytes.lock().unwrap().clone()
    }

    #[track_caller]
    fn all(self) -> Vec<u8> {
        eventually("its output ends", || self.reader.is_finished());
        self.so_far()
    }
}
