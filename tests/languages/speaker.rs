//! A program in another language that carries out commands for locks.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use harness::process;

/// A language with a library of its own.
#[derive(Clone, Copy, Debug)]
pub enum Language {
    Python,
    Node,
}

/// Makes a test for each language of one function of a [`Language`]. Use it as `#[apply(in_every_language)]`.
macro_rules! in_every_language {
    (fn $name:ident($language:ident: Language) $body:block) => {
        fn $name($language: Language) $body

        mod $name {
            #[test]
            fn python() {
                super::$name(crate::Language::Python);
            }
            #[test]
            fn node() {
                super::$name(crate::Language::Node);
            }
        }
    };
}
pub(crate) use in_every_language;

/// A running program. Dropping it kills the process.
pub struct Speaker {
    child: Child,
    hears: ChildStdin,
    says: BufReader<ChildStdout>,
}

impl Speaker {
    /// Starts one, with a client of these nodes.
    #[track_caller]
    pub fn start(language: Language, nodes: &str, node_timeout: Duration) -> Speaker {
        let (program, file) = match language {
            Language::Python => (top(".python/bin/python"), top("tests/python/speaker.py")),
            Language::Node => ("node".to_owned(), top("tests/nodejs/speaker.mjs")),
        };
        let mut command = Command::new(program);
        command.args([&file, nodes, &node_timeout.as_millis().to_string()]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let child = process::spawn(command);
        let mut child = child.expect("it is installed by `make test`");
        let hears = child.stdin.take().expect("it was asked for");
        let says = BufReader::new(child.stdout.take().expect("it was asked for"));
        Speaker { child, hears, says }
    }

    /// Sends it a command, and returns its answer.
    #[track_caller]
    pub fn ask(&mut self, words: &str) -> String {
        writeln!(self.hears, "{words}").expect("it runs");
        let mut line = String::new();
        self.says.read_line(&mut line).expect("it speaks UTF-8");
        assert!(line.ends_with('\n'), "it ended: {:?}", self.child.wait());
        line.trim_end().to_owned()
    }

    /// Takes or checks a lock, and returns the fence.
    #[track_caller]
    pub fn fence(&mut self, words: &str) -> u64 {
        let said = self.ask(words);
        said.parse().unwrap_or_else(|_| panic!("{words}: {said}"))
    }
}

impl Drop for Speaker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn top(path: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path).display().to_string()
}
