//! PostgreSQL: the statements of docs/fences.md refuse a late holder, and SELECT before UPDATE does
//! not.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use harness::{Quorum, eventually};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, Uid};
use tempfile::TempDir;

use crate::fences_page::{parts, statements, with};
use crate::holders::{StoppedHolder, next_holder};

const PORT: u16 = 5432;
const ACCOUNT: &str =
    "CREATE TABLE account (id int PRIMARY KEY, balance int); INSERT INTO account VALUES (7, 0)";

#[test]
fn a_late_transaction_is_refused() {
    let server = Postgres::start();
    let mut session = server.session();
    let [table, transaction, ..] = statements();
    session.run(&table);
    session.run(ACCOUNT);
    assert!(session.fenced(&transaction, 10, 100));
    assert!(session.fenced(&transaction, 10, 110), "the same holder comes again");
    assert!(session.fenced(&transaction, 11, 200));
    assert!(!session.fenced(&transaction, 10, 300));
    assert_eq!(session.run("SELECT balance FROM account"), ["200"]);
    // A read shows the fence with the same statement.
    let (show, _) = parts(&transaction, 12, 0);
    session.run(&format!("BEGIN; {show}; SELECT balance FROM account; COMMIT"));
    assert!(!session.fenced(&transaction, 11, 400));
    assert_eq!(session.run("SELECT balance FROM account"), ["200"]);
}

#[test]
fn a_holder_that_was_stopped_beyond_its_lease_is_refused() {
    let server = Postgres::start();
    let mut session = server.session();
    let [table, transaction, ..] = statements();
    session.run(&table);
    session.run(ACCOUNT);
    let quorum = Quorum::start(3);
    let alice = StoppedHolder::of(&quorum, "account:7");
    assert!(session.fenced(&transaction, alice.fence(), 100));
    // Alice is paused here, and her lease ends.
    let bob = next_holder(&quorum, "account:7");
    assert!(session.fenced(&transaction, bob, 200));
    assert!(!session.fenced(&transaction, alice.fence(), 300));
    assert_eq!(session.run("SELECT balance FROM account"), ["200"]);
}

#[test]
fn in_one_statement_a_late_write_changes_no_row() {
    let server = Postgres::start();
    let mut session = server.session();
    let [table, _, statement, _] = statements();
    session.run(&table);
    session.run(ACCOUNT);
    for (fence, balance, rows) in [(10, 100, 1), (11, 200, 1), (10, 300, 0), (11, 400, 1)] {
        let statement = with(&statement, fence, balance);
        assert_eq!(session.run(&statement), [format!("UPDATE {rows}")], "{fence}");
    }
    assert_eq!(session.run("SELECT balance FROM account"), ["400"]);
}

#[test]
fn a_select_before_the_update_lets_a_late_write_land() {
    let server = Postgres::start();
    let (mut alice, mut bob) = (server.session(), server.session());
    alice.run("CREATE TABLE account (id int PRIMARY KEY, balance int, fence bigint); INSERT INTO account VALUES (7, 0, 0)");
    alice.run("BEGIN");
    assert_eq!(alice.run("SELECT fence FROM account WHERE id = 7"), ["0"], "it is not late");
    // Alice is paused here, and her lease ends.
    bob.run("UPDATE account SET balance = 200, fence = 11 WHERE id = 7");
    alice.run("UPDATE account SET balance = 100, fence = 10 WHERE id = 7; COMMIT");
    assert_eq!(bob.run("SELECT balance FROM account"), ["100"], "bob's write is gone");
}

#[test]
fn a_transaction_that_has_shown_its_fence_is_waited_for() {
    let server = Postgres::start();
    let (mut alice, mut bob) = (server.session(), server.session());
    let [table, transaction, ..] = statements();
    alice.run(&table);
    alice.run(ACCOUNT);
    let (show, write) = parts(&transaction, 10, 100);
    alice.run(&format!("BEGIN; {show}"));
    // Bob shows a larger one, and cannot come between alice's mark and her write.
    let (bobs_show, bobs_write) = parts(&transaction, 11, 200);
    bob.send(&format!("BEGIN; {bobs_show}; {bobs_write}; COMMIT"));
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
    let mut judge = server.session();
    eventually("bob waits", || judge.run(waits) == ["1"]);
    alice.run(&format!("{write}; COMMIT"));
    bob.hear();
    assert_eq!(judge.run("SELECT balance FROM account"), ["200"]);
}

/// A PostgreSQL server, on a unix socket in a temporary folder, run by a user without rights.
pub struct Postgres {
    folder: TempDir,
    server: Child,
}

impl Postgres {
    pub fn start() -> Postgres {
        let folder = TempDir::with_prefix("dlock-test-").expect("a folder can be made");
        let path = folder.path();
        if Uid::effective().is_root() {
            let owned = Command::new("chown").arg("postgres").arg(path).status();
            assert!(owned.is_ok_and(|status| status.success()), "there is a user postgres");
        }
        let data = path.join("data");
        let made = as_user(program("initdb"))
            .args(["-A", "trust", "-U", "test", "-N", "-D"])
            .arg(&data)
            .output();
        let made = made.expect("initdb is there");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let server = as_user(program("postgres"))
            .arg("-D")
            .arg(&data)
            .args(["-c", "listen_addresses=", "-c", "fsync=off", "-k"])
            .arg(path)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let postgres = Postgres { server: server.expect("it can be started"), folder };
        eventually("it answers", || {
            let asked = postgres.client(PORT).args(["-c", "SELECT 1"]).output();
            asked.is_ok_and(|asked| asked.status.success())
        });
        postgres
    }

    /// The folder of its socket.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A client of the server there with this port.
    pub fn client(&self, port: u16) -> Command {
        let mut client = Command::new("psql");
        client.args([
            "-X",
            "-A",
            "-t",
            "-U",
            "test",
            "-d",
            "postgres",
            "-p",
            &port.to_string(),
            "-h",
        ]);
        client.arg(self.folder.path());
        client
    }

    pub fn session(&self) -> Session {
        Session::of(self.client(PORT))
    }
}

impl Session {
    /// A connection of this client's.
    pub fn of(mut client: Command) -> Session {
        let piped = client.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = piped.spawn().expect("psql is there");
        let stdin = process.stdin.take().expect("it is piped");
        let stdout = BufReader::new(process.stdout.take().expect("it is piped"));
        Session { process, stdin, stdout }
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // PostgreSQL's own way to end at once, children and all.
        let _ = kill(Pid::from_raw(self.server.id() as i32), Signal::SIGQUIT);
        let _ = self.server.wait();
    }
}

/// A program of PostgreSQL's.
fn program(name: &str) -> PathBuf {
    let folders =
        fs::read_dir("/usr/lib/postgresql").expect("PostgreSQL is there: scripts/world.sh");
    let versions = folders.filter_map(|folder| Some(folder.ok()?.path().join("bin").join(name)));
    versions.max().expect("there is a version")
}

/// A program, run by a user that may run the server.
pub fn as_user(path: PathBuf) -> Command {
    if !Uid::effective().is_root() {
        return Command::new(path);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "postgres", "--regid", "postgres", "--clear-groups"]).arg(path);
    command.current_dir("/");
    command
}

/// A connection.
pub struct Session {
    process: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Session {
    /// Runs statements, and returns the output, a line each.
    pub fn run(&mut self, statements: &str) -> Vec<String> {
        self.send(statements);
        self.hear()
    }

    /// Runs the page's transaction. False: a later holder has written.
    fn fenced(&mut self, transaction: &str, fence: u64, balance: i64) -> bool {
        let (show, write) = parts(transaction, fence, balance);
        self.run("BEGIN");
        let is_late = self.run(&show).contains(&"INSERT 0 0".to_owned());
        self.run(if is_late { "ROLLBACK" } else { &write });
        self.run(if is_late { "" } else { "COMMIT" });
        !is_late
    }

    fn send(&mut self, statements: &str) {
        write!(self.stdin, "{statements};\n\\echo heard\n").expect("psql reads");
    }

    fn hear(&mut self) -> Vec<String> {
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
