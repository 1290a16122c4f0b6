//! The program `dlock`, run as a user would. Like the module, it is never an old one.

use std::env;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use crate::module_file;

/// Time-out of a request to a node, long enough for a machine that runs many tests at once. A lock has a quarter of
/// its lease at most.
pub const PATIENT: &str = "20s";

/// The program: `release/dlock` in the target folder of this build, or DLOCK_PROGRAM.
pub fn path() -> &'static PathBuf {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| match env::var_os("DLOCK_PROGRAM") {
        Some(path) => {
            let path = PathBuf::from(path);
            assert!(path.is_file(), "DLOCK_PROGRAM: no file {}", path.display());
            path
        }
        None => module_file::built("dlock"),
    })
}

/// The program with these nodes, given as host and port, and without environment variables that would change
/// it.
pub fn command(nodes: &[String]) -> Command {
    let mut command = with_usual_signals(path());
    for (name, _) in env::vars_os() {
        if name.to_string_lossy().starts_with("DLOCK_") {
            command.env_remove(name);
        }
    }
    command.env("DLOCK_NODES", nodes.join(",")).stdin(Stdio::null());
    command
}

/// A command with the usual handling of signals. The process that runs the tests may ignore some, as nohup
/// and the background of a script do, and all children inherit that.
pub fn with_usual_signals(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("env");
    command.arg("--default-signal").arg(program);
    command
}

/// The program's output and exit status.
#[derive(Clone, Debug)]
pub struct Said {
    /// Its exit code; `None`: a signal ended it.
    pub code: Option<i32>,
    /// Its stdout.
    pub out: String,
    /// Its stderr.
    pub err: String,
}

/// Runs it to its end.
#[track_caller]
pub fn run(command: &mut Command) -> Said {
    let output = command.output().unwrap_or_else(|error| panic!("cannot run {command:?}: {error}"));
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("it prints UTF-8");
    Said { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

impl Said {
    /// Asserts its exit code.
    #[track_caller]
    pub fn with_code(self, code: i32) -> Said {
        assert_eq!(self.code, Some(code), "{self:#?}");
        self
    }

    /// The objects that it printed with `--json`, one a line.
    #[track_caller]
    pub fn json(&self) -> Vec<serde_json::Value> {
        let read = |line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
        self.out.lines().map(read).collect()
    }
}
