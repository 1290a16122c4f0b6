//! PostgreSQL: the statements of docs/fences.md refuse a late holder, and SELECT before UPDATE does
//! not.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use harness::{Quorum, eventually};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, Uid};
use tempfile::TempDir;

use crate::fences_page::{parts, statements, with};
use crate::holders::{StoppedHolder, next_holder};
use crate::session::Session;

const ACCOUNT: &str =
    "CREATE TABLE account (id int PRIMARY KEY, balance int); INSERT INTO account VALUES (7, 0)";

#[test]
fn a_late_transaction_is_refused() {
    let server = Postgres::start();
    let mut session = server.session();
    let [table, transaction, ..] = statements();
    session.run(&table);
    session.run(ACCOUNT);
    assert!(fenced(&mut session, &transaction, 10, 100));
    assert!(fenced(&mut session, &transaction, 10, 110), "the same holder comes again");
    assert!(fenced(&mut session, &transaction, 11, 200));
    assert!(!fenced(&mut session, &transaction, 10, 300));
    assert_eq!(session.run("SELECT balance FROM account"), ["200"]);
    // A read shows the fence with the same statement.
    let (show, _) = parts(&transaction, 12, 0);
    session.run(&format!("BEGIN; {show}; SELECT balance FROM account; COMMIT"));
    assert!(!fenced(&mut session, &transaction, 11, 400));
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
    assert!(fenced(&mut session, &transaction, alice.fence(), 100));
    // Alice is paused here, and her lease ends.
    let bob = next_holder(&quorum, "account:7");
    assert!(fenced(&mut session, &transaction, bob, 200));
    assert!(!fenced(&mut session, &transaction, alice.fence(), 300));
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
struct Postgres {
    folder: TempDir,
    server: Child,
}

impl Postgres {
    fn start() -> Postgres {
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
            let asked = postgres.client().args(["-c", "SELECT 1"]).output();
            asked.is_ok_and(|asked| asked.status.success())
        });
        postgres
    }

    /// A client of the server.
    fn client(&self) -> Command {
        let mut client = Command::new("psql");
        client
            .args(["-X", "-A", "-t", "-U", "test", "-d", "postgres", "-h"])
            .arg(self.folder.path());
        client
    }

    fn session(&self) -> Session {
        Session::of(self.client(), "\\echo")
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
fn as_user(path: PathBuf) -> Command {
    if !Uid::effective().is_root() {
        return Command::new(path);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "postgres", "--regid", "postgres", "--clear-groups"]).arg(path);
    command.current_dir("/");
    command
}

/// Runs the page's transaction. False: a later holder has written.
fn fenced(session: &mut Session, transaction: &str, fence: u64, balance: i64) -> bool {
    let (show, write) = parts(transaction, fence, balance);
    session.fenced("BEGIN", (&show, &write), |_, shown| shown.contains(&"INSERT 0 0".to_owned()))
}
