//! The programs of docs/examples, each driven by one of tests/world/drivers in a process of its own.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use harness::process;
use tempfile::TempDir;

/// A client library, and with it an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Library {
    RedisPy,
    Ioredis,
    Phpredis,
    RedisRb,
}

/// Examples and drivers side by side, with the packages that `make test-world` installs.
pub struct Programs {
    folder: TempDir,
    library: Library,
}

/// A process that takes locks.
pub struct Program {
    child: Child,
    _stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Library {
    pub const ALL: [Library; 4] =
        [Library::RedisPy, Library::Ioredis, Library::Phpredis, Library::RedisRb];

    /// The interpreter, and the names of the example and of the driver.
    fn names(self) -> (PathBuf, &'static str, &'static str) {
        let python = installed("python/bin/python");
        match self {
            Library::RedisPy => (python, "redis_py.py", "drive_redis_py.py"),
            Library::Ioredis => ("node".into(), "ioredis.mjs", "drive_ioredis.mjs"),
            Library::Phpredis => ("php".into(), "phpredis.php", "drive_phpredis.php"),
            Library::RedisRb => ("ruby".into(), "redis_rb.rb", "drive_redis_rb.rb"),
        }
    }

    /// True if one process holds several locks at a time.
    pub fn has_tasks(self) -> bool {
        self != Library::Phpredis
    }

    pub fn programs(self) -> Programs {
        let folder = TempDir::with_prefix("dlock-test-").expect("a folder can be made");
        for from in ["docs/examples", "tests/world/drivers"] {
            for file in fs::read_dir(top().join(from)).expect("it is there") {
                let file = file.expect("it can be read");
                fs::copy(file.path(), folder.path().join(file.file_name())).expect("there is room");
            }
        }
        let packages = folder.path().join("node_modules");
        symlink(top().join("tests/nodejs/node_modules"), packages).expect("it is the first");
        Programs { folder, library: self }
    }
}

impl Programs {
    /// The example as it stands, to be run by hand.
    pub fn example(&self) -> Command {
        let (interpreter, example, _) = self.library.names();
        let mut command = Command::new(interpreter);
        command.arg(self.folder.path().join(example));
        command
    }

    /// Starts a process with these words for its driver.
    pub fn start(&self, port: u16, words: &[&str]) -> Program {
        self.start_with(port, words, &[])
    }

    /// Starts the program with these variables in its environment.
    pub fn start_with(&self, port: u16, words: &[&str], vars: &[(&str, &str)]) -> Program {
        let (interpreter, _, driver) = self.library.names();
        let mut command = Command::new(interpreter);
        command.arg(self.folder.path().join(driver));
        command.arg(port.to_string()).args(words).envs(vars.iter().copied());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child =
            process::spawn(command).expect("the interpreter is there: scripts/world.sh");
        let stdin = child.stdin.take().expect("it is piped");
        let stdout = BufReader::new(child.stdout.take().expect("it is piped"));
        Program { child, _stdin: stdin, stdout }
    }
}

impl Program {
    /// The next line of its output.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("it prints text");
        line.trim_end().to_owned()
    }

    /// Waits until it has ended with success, and returns the rest of its output.
    #[track_caller]
    pub fn end(mut self) -> String {
        let rest: Vec<String> =
            self.stdout.by_ref().lines().map(|line| line.expect("it prints text")).collect();
        let status = self.child.wait().expect("it is ours");
        assert!(status.success(), "{status}: {rest:?}");
        rest.join("\n")
    }

    /// Kills it, as a crash would.
    pub fn kill(mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it is ours");
    }
}

/// A path in the folder for scripts/world.sh's installations.
pub fn installed(path: &str) -> PathBuf {
    top().join(".world").join(path)
}

pub fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}
