//! SQLite: the transaction of docs/fences.md refuses a late holder, and SELECT before UPDATE does not.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use harness::Quorum;
use tempfile::TempDir;

use crate::fences_page::{parts, statements};
use crate::holders::{StoppedHolder, next_holder};

#[test]
fn a_late_transaction_is_refused() {
    let (_folder, [mut session, _]) = sessions();
    assert!(session.fenced(10, 100));
    assert!(session.fenced(10, 110), "the same holder comes again");
    assert!(session.fenced(11, 200));
    assert!(!session.fenced(10, 300));
    assert_eq!(session.run("SELECT balance FROM account"), ["200"]);
}

#[test]
fn no_client_comes_between_a_mark_and_its_write() {
    let (_folder, [mut alice, mut bob]) = sessions();
    let (show, write) = parts(&transaction(), 10, 100);
    alice.run(&format!("BEGIN IMMEDIATE; {show}"));
    let refused = bob.run("BEGIN IMMEDIATE");
    assert!(refused[0].contains("database is locked"), "{refused:?}");
    alice.run(&format!("{write}; COMMIT"));
    assert!(bob.fenced(11, 200));
}

#[test]
fn a_select_before_the_update_lets_a_late_write_land() {
    let (_folder, [mut alice, mut bob]) = sessions();
    alice.run("INSERT INTO mark VALUES ('account:7', 10)");
    assert_eq!(alice.run("SELECT fence FROM mark"), ["10"], "it is not late");
    // Alice is paused here, and her lease ends.
    assert!(bob.fenced(11, 200));
    alice.run("UPDATE account SET balance = 100 WHERE id = 7");
    assert_eq!(bob.run("SELECT balance FROM account"), ["100"], "bob's write is gone");
}

fn transaction() -> String {
    let [.., transaction] = statements();
    transaction
}

/// Two connections to a new database with an account.
fn sessions() -> (TempDir, [Session; 2]) {
    let folder = TempDir::with_prefix("dlock-test-").expect("a folder can be made");
    let file = folder.path().join("data.db");
    let mut sessions = [Session::open(&file), Session::open(&file)];
    let [table, ..] = statements();
    sessions[0].run(&table);
    let account =
        "CREATE TABLE account (id int PRIMARY KEY, balance int); INSERT INTO account VALUES (7, 0)";
    sessions[0].run(account);
    (folder, sessions)
}

/// A connection: SQLite's own program.
struct Session {
    process: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Session {
    fn open(file: &Path) -> Session {
        let mut program = Command::new("sh");
        // Errors go to the same output.
        program.args(["-c", "exec sqlite3 -batch \"$0\" 2>&1"]).arg(file);
        program.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = program.spawn().expect("there is a shell");
        let stdin = process.stdin.take().expect("it is piped");
        let stdout = BufReader::new(process.stdout.take().expect("it is piped"));
        Session { process, stdin, stdout }
    }

    /// Runs the page's transaction. False: a later holder has written.
    fn fenced(&mut self, fence: u64, balance: i64) -> bool {
        let (show, write) = parts(&transaction(), fence, balance);
        self.run("BEGIN IMMEDIATE");
        self.run(&show);
        let is_late = self.run("SELECT changes()") == ["0"];
        self.run(if is_late { "ROLLBACK" } else { &write });
        self.run(if is_late { "" } else { "COMMIT" });
        !is_late
    }

    /// Runs statements, and returns the output, a line each.
    fn run(&mut self, statements: &str) -> Vec<String> {
        write!(self.stdin, "{statements};\n.print heard\n").expect("sqlite3 reads");
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
