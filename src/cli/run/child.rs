//! Starts the command, with a signal to it if dlock is killed.
//!
//! The new process asks for that signal, and unblocks others, before the command runs. So dlock starts itself once more,
//! as `dlock __child`, which does so and then becomes the command. Code between fork and exec would need `unsafe`.

use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus};

use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use nix::unistd::{getpid, getppid};

use super::processes::Processes;
use crate::say::exit::Exit;
use crate::say::failure::Failure;
use crate::say::kind::Kind;
use crate::say::stderr::complain;
use crate::signals;

/// The command to start.
pub struct Start {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// Variables in addition to dlock's own environment.
    pub environment: Vec<(&'static str, OsString)>,
    /// Signal to the command if dlock is killed.
    pub if_dlock_dies: Signal,
    /// True if it reports a command that cannot be run as JSON.
    pub as_json: bool,
}

impl Start {
    /// Starts the command. The thread that does the work must call this: the command gets its
    /// signal when the thread that started it ends.
    pub fn spawn(&self) -> Result<Processes, Failure> {
        Processes::start(&mut self.child()).map_err(not_started)
    }

    fn child(&self) -> Command {
        let signal = self.if_dlock_dies as i32;
        let mut child = Command::new(THIS_PROGRAM);
        child
            .arg0("dlock")
            .args([CHILD, &getpid().to_string(), &signal.to_string()])
            .arg(if self.as_json { JSON } else { WORDS })
            .args(&self.command)
            .envs(self.environment.iter().map(|(name, value)| (name, value)));
        child
    }
}

fn not_started(error: io::Error) -> Failure {
    Failure::internal(&format_args!("{THIS_PROGRAM}: {error}"))
}

/// Returns the signal that ended the command, if one did.
pub fn signal_of(status: ExitStatus) -> Option<Signal> {
    status.signal().and_then(|number| Signal::try_from(number).ok())
}

/// Returns the arguments after `dlock __child`, if dlock was started as that.
pub fn arguments() -> Option<Vec<OsString>> {
    let mut arguments = std::env::args_os().skip(1);
    (arguments.next()? == CHILD).then(|| arguments.collect())
}

/// `dlock __child PARENT SIGNAL JSON COMMAND…`: becomes the command.
pub fn main(arguments: &[OsString]) -> Exit {
    let [parent, signal, json, program, rest @ ..] = arguments else {
        complain(format_args!("{CHILD} is for dlock itself alone"));
        return Exit::USAGE;
    };
    if let Some(signal) = wanted_signal(signal) {
        // This fails only for a signal that does not exist.
        let _ = set_pdeathsig(signal);
        // The parent may have ended before `prctl`.
        if parent.to_str() != Some(&getppid().to_string()) {
            return Exit::LOST;
        }
    }
    signals::unblock_stops();
    let error = Command::new(program).args(rest).exec();
    let kind = match error.kind() {
        ErrorKind::NotFound => Kind::NotFound,
        _ => Kind::CannotExecute,
    };
    let words = format_args!("cannot run '{}': {}", program.display(), reason(&error));
    Failure::new(kind, words).report(json == JSON)
}

/// Reads a signal's number; 0 means none.
fn wanted_signal(number: &OsString) -> Option<Signal> {
    let number: i32 = number.to_str()?.parse().ok()?;
    Signal::try_from(number).ok()
}

fn reason(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::NotFound => "there is no such program".to_owned(),
        ErrorKind::PermissionDenied => "it may not be executed".to_owned(),
        _ => error.to_string(),
    }
}

/// The running program, even if its file was replaced meanwhile.
const THIS_PROGRAM: &str = "/proc/self/exe";

const CHILD: &str = "__child";
const JSON: &str = "json";
const WORDS: &str = "words";
