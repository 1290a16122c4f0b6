//! PostgreSQL: the statements of docs/fences.md refuse a late holder, and SELECT before UPDATE does
//! not.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use harness::eventually;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, Uid};
use tempfile::TempDir;

/// The fence of the page's examples.
const FENCE: &str = "1795238075371227";

#[test]
fn a_late_transaction_is_refused() {
    let server = Postgres::start();
    let mut session = server.session();
    let [table, transaction, _] = statements();
    session.run(&table);
    session.run(
        "CREATE TABLE account (id int PRIMARY KEY, balance int); INSERT INTO account VALUES (7, 0)",
    );
    let fenced = |session: &mut Session, fence: u64, balance: i64| {
        let (show, write) = parts(&transaction, fence, balance);
        session.run("BEGIN");
        let is_late = session.run(&show).contains(&"INSERT 0 0".to_owned());
        session.run(if is_late { "ROLLBACK" } else { &write });
        session.run(if is_late { "" } else { "COMMIT" });
        !is_late
    };
    assert!(fenced(&mut session, 10, 100));
    assert!(fenced(&mut session, 10, 110), "the same holder comes again");
    assert!(fenced(&mut session, 11, 200));
    assert!(!fenced(&mut session, 10, 300));
    assert_eq!(session.run("SELECT balance FROM account"), ["200"]);
    // A read shows the fence with the same statement.
    let (show, _) = parts(&transaction, 12, 0);
    session.run(&format!("BEGIN; {show}; SELECT balance FROM account; COMMIT"));
    assert!(!fenced(&mut session, 11, 400));
    assert_eq!(session.run("SELECT balance FROM account"), ["200"]);
}

#[test]
fn in_one_statement_a_late_write_changes_no_row() {
    let server = Postgres::start();
    let mut session = server.session();
    let [table, _, statement] = statements();
    session.run(&table);
    session.run(
        "CREATE TABLE account (id int PRIMARY KEY, balance int); INSERT INTO account VALUES (7, 0)",
    );
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
    // Alice stands still here, and her lease ends.
    bob.run("UPDATE account SET balance = 200, fence = 11 WHERE id = 7");
    alice.run("UPDATE account SET balance = 100, fence = 10 WHERE id = 7; COMMIT");
    assert_eq!(bob.run("SELECT balance FROM account"), ["100"], "bob's write is gone");
}

#[test]
fn a_transaction_that_has_shown_its_fence_is_waited_for() {
    let server = Postgres::start();
    let (mut alice, mut bob) = (server.session(), server.session());
    let [table, transaction, _] = statements();
    alice.run(&table);
    alice.run(
        "CREATE TABLE account (id int PRIMARY KEY, balance int); INSERT INTO account VALUES (7, 0)",
    );
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

/// The statements of the page: the table, the transaction, and all in one.
fn statements() -> [String; 3] {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/fences.md");
    let page = fs::read_to_string(page).expect("the page is there");
    let mut blocks = page.split("```sql\n").skip(1);
    let mut next = || {
        let block = blocks.next().and_then(|block| block.split("```").next());
        block.expect("the page has three examples").to_owned()
    };
    [next(), next(), next()]
}

/// What a transaction shows, and what it writes.
fn parts(transaction: &str, fence: u64, balance: i64) -> (String, String) {
    let lines = transaction.lines().filter(|line| !line.starts_with("--"));
    let text = with(&lines.collect::<Vec<_>>().join("\n"), fence, balance);
    let mut parts = text.split(';').map(|part| part.trim().to_owned());
    assert_eq!(parts.next().as_deref(), Some("BEGIN"));
    let mut part = || parts.next().expect("there are four statements");
    (part(), part())
}

fn with(statement: &str, fence: u64, balance: i64) -> String {
    statement.replace(FENCE, &fence.to_string()).replace("120", &balance.to_string())
}

/// A server of its own, on a unix socket in a temporary folder, run by a user without rights.
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
        let made =
            as_user("initdb").args(["-A", "trust", "-U", "test", "-N", "-D"]).arg(&data).output();
        let made = made.expect("initdb is there");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let server = as_user("postgres")
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

    fn client(&self) -> Command {
        let mut client = Command::new("psql");
        client
            .args(["-X", "-A", "-t", "-U", "test", "-d", "postgres", "-h"])
            .arg(self.folder.path());
        client
    }

    fn session(&self) -> Session {
        let mut client = self.client();
        let piped = client.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = piped.spawn().expect("psql is there");
        let stdin = process.stdin.take().expect("it is piped");
        let stdout = BufReader::new(process.stdout.take().expect("it is piped"));
        Session { process, stdin, stdout }
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // Its own way to end at once, children and all.
        let _ = kill(Pid::from_raw(self.server.id() as i32), Signal::SIGQUIT);
        let _ = self.server.wait();
    }
}

/// A program of PostgreSQL's, as a user who may run the server.
fn as_user(program: &str) -> Command {
    let folders =
        fs::read_dir("/usr/lib/postgresql").expect("PostgreSQL is there: scripts/world.sh");
    let versions = folders.filter_map(|folder| Some(folder.ok()?.path().join("bin").join(program)));
    let path: PathBuf = versions.max().expect("there is a version");
    if !Uid::effective().is_root() {
        return Command::new(path);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "postgres", "--regid", "postgres", "--clear-groups"]).arg(path);
    command.current_dir("/");
    command
}

/// A connection.
struct Session {
    process: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Session {
    /// Runs statements, and gives what is printed, a line each.
    fn run(&mut self, statements: &str) -> Vec<String> {
        self.send(statements);
        self.hear()
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
