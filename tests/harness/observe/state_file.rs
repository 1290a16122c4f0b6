//! A node's state file: its place, its promises, and the node's words about it.

use std::fs;
use std::path::PathBuf;

use crate::server::Server;

impl Server {
    /// The path of the state file, unless the configuration says otherwise.
    pub fn state_file(&self) -> PathBuf {
        let folder = self.folder().canonicalize().expect("the folder is there");
        folder.join(format!("dlock-{}.state", self.port()))
    }

    /// The names of the files in its folder that belong to a state.
    pub fn state_files(&self) -> Vec<String> {
        let entries = fs::read_dir(self.folder()).expect("the folder can be read");
        let names = entries.map(|entry| entry.expect("it can be read").file_name());
        let mut names: Vec<String> = names.map(|name| name.to_string_lossy().into()).collect();
        names.retain(|name| name.contains(".state"));
        names.sort();
        names
    }

    /// The fence counter, and the limit in the state file. The latter is never the smaller.
    #[track_caller]
    pub fn fences(&self) -> (i64, i64) {
        let node = self.run("DLOCK.NODE");
        let (fence, reserved) = (node.at("fence").int(), node.at("fence-reserved").int());
        assert!(reserved >= fence, "the counter is at {fence}, and {reserved} is promised");
        (fence, reserved)
    }

    /// Takes a free lock and releases it, for its fence.
    #[track_caller]
    pub fn next_fence(&self) -> i64 {
        let fence = self.run("DLOCK.ACQUIRE fence next 60000").int();
        assert_eq!(self.run("DLOCK.RELEASE fence next").int(), 1);
        fence
    }

    /// The lines that the module has logged.
    pub fn module_log(&self) -> Vec<String> {
        let log = self.log();
        log.lines().filter(|line| line.contains("<module> dlock: ")).map(str::to_owned).collect()
    }

    /// Starts it again, and expects a refusal. Returns its error about a file, in one line.
    #[track_caller]
    pub fn refusal(&mut self, file: &str) -> String {
        let before = self.log().len();
        let refused = self.try_start_again().expect_err("it starts all the same");
        assert!(!refused.starts_with("exit status: 0"), "it says that it ended well: {refused}");
        assert!(refused.starts_with("exit status: "), "it was killed: {refused}");
        line_about(&self.log()[before..], file)
    }
}

/// The only line of a log that names a file.
#[track_caller]
pub fn line_about(log: &str, file: &str) -> String {
    let lines: Vec<&str> = log.lines().filter(|line| line.contains(file)).collect();
    assert_eq!(lines.len(), 1, "one line about {file}:\n{log}");
    lines[0].to_owned()
}
