//! A connection to a store, by the store's own program.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A connection.
pub struct Session {
    process: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    /// The program's command to print a word.
    print: &'static str,
}

impl Session {
    /// A connection of this program's.
    pub fn of(mut program: Command, print: &'static str) -> Session {
        let piped = program.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = piped.spawn().expect("the program is there");
        let stdin = process.stdin.take().expect("it is piped");
        let stdout = BufReader::new(process.stdout.take().expect("it is piped"));
        Session { process, stdin, stdout, print }
    }

    /// Runs statements, and returns the output, a line each.
    pub fn run(&mut self, statements: &str) -> Vec<String> {
        self.send(statements);
        self.hear()
    }

    /// Runs a transaction of docs/fences.md. False: a later holder has written.
    pub fn fenced(
        &mut self,
        begin: &str,
        (show, write): (&str, &str),
        late: impl Fn(&mut Session, &[String]) -> bool,
    ) -> bool {
        self.run(begin);
        let shown = self.run(show);
        let is_late = late(self, &shown);
        self.run(if is_late { "ROLLBACK" } else { write });
        self.run(if is_late { "" } else { "COMMIT" });
        !is_late
    }

    /// Sends statements.
    pub fn send(&mut self, statements: &str) {
        write!(self.stdin, "{statements};\n{} heard\n", self.print).expect("the program reads");
    }

    /// The output of what was sent, a line each.
    pub fn hear(&mut self) -> Vec<String> {
        let lines = self.stdout.by_ref().lines().map(|line| line.expect("it prints text"));
        lines.take_while(|line| line != "heard").collect()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
