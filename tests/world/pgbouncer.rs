//! PgBouncer gives each transaction a connection of its own: a session's advisory lock is no lock there, and
//! one of dlock is.

use std::fs;
use std::process::{Child, Stdio};

use harness::running::Running;
use harness::{Quorum, eventually, process};

use crate::postgres::{Postgres, Session, as_user};

const LOCK: &str = "SELECT pg_try_advisory_lock(7)";
/// The start of a replica. A migration that nobody has carried out yet takes its time.
const MIGRATES: &str = "[ \"$($0 \"$@\" -c 'SELECT count(*) FROM ledger')\" != 0 ] ||
    { sleep 0.3; $0 \"$@\" -q -c 'INSERT INTO ledger VALUES (1)'; }";

#[test]
fn behind_the_pool_two_sessions_have_one_advisory_lock() {
    let server = Postgres::start();
    let (mut alice, mut bob) = (server.session(), server.session());
    assert_eq!((alice.run(LOCK), bob.run(LOCK)), (vec!["t".into()], vec!["f".into()]));
    alice.run("SELECT pg_advisory_unlock(7)");
    let pool = Pool::before(&server);
    let (mut alice, mut bob) = (pool.session(), pool.session());
    assert_eq!((alice.run(LOCK), bob.run(LOCK)), (vec!["t".into()], vec!["t".into()]));
}

#[test]
fn behind_the_pool_one_replica_migrates_under_a_lock_of_dlock() {
    let server = Postgres::start();
    let pool = Pool::before(&server);
    pool.session().run("CREATE TABLE ledger (entry int)");
    let quorum = Quorum::start(3);
    let client = pool.server.client(PORT);
    let words = [client.get_program()].into_iter().chain(client.get_args());
    let words = words.map(|word| word.to_str().expect("it is text"));
    let command: Vec<&str> =
        ["migrate", "--", "sh", "-c", MIGRATES].into_iter().chain(words).collect();
    let replicas: Vec<Running> = (0..4).map(|_| Running::start(&quorum, &command)).collect();
    replicas.into_iter().for_each(|replica| drop(replica.ended().with_code(0)));
    assert_eq!(pool.session().run("SELECT count(*) FROM ledger"), ["1"]);
}

/// A pool of connections in front of a server, beside its socket.
struct Pool<'p> {
    server: &'p Postgres,
    process: Child,
}

impl Pool<'_> {
    fn before(server: &Postgres) -> Pool<'_> {
        let (folder, settings) = (server.folder().display(), server.folder().join("pool.ini"));
        let text = format!(
            "[databases]\npostgres = host={folder} user=test\n\
             [pgbouncer]\nlisten_port = {PORT}\nunix_socket_dir = {folder}\nauth_type = any\n\
             pool_mode = transaction\n"
        );
        fs::write(&settings, text).expect("there is room");
        let mut command = as_user("/usr/sbin/pgbouncer".into());
        command.arg("-q").arg(settings).stdout(Stdio::null()).stderr(Stdio::null());
        let process = process::spawn(command).expect("it is there: scripts/world.sh");
        eventually("it answers", || {
            let asked = server.client(PORT).args(["-c", "SELECT 1"]).output();
            asked.is_ok_and(|asked| asked.status.success())
        });
        Pool { server, process }
    }

    fn session(&self) -> Session {
        Session::of(self.server.client(PORT))
    }
}

impl Drop for Pool<'_> {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Only the name of a socket: nothing listens to the network.
const PORT: u16 = 6432;
