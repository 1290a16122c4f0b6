//! SQLite: the transaction of docs/fences.md refuses a late holder, and SELECT before UPDATE does not.

use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use crate::fences_page::{parts, statements};
use crate::session::Session;

#[test]
fn a_late_transaction_is_refused() {
    let (_folder, [mut session, _]) = sessions();
    assert!(fenced(&mut session, 10, 100));
    assert!(fenced(&mut session, 10, 110), "the same holder comes again");
    assert!(fenced(&mut session, 11, 200));
    assert!(!fenced(&mut session, 10, 300));
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
    assert!(fenced(&mut bob, 11, 200));
}

#[test]
fn a_select_before_the_update_lets_a_late_write_land() {
    let (_folder, [mut alice, mut bob]) = sessions();
    alice.run("INSERT INTO mark VALUES ('account:7', 10)");
    assert_eq!(alice.run("SELECT fence FROM mark"), ["10"], "it is not late");
    // Alice is paused here, and her lease ends.
    assert!(fenced(&mut bob, 11, 200));
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
    let mut sessions = [session(&file), session(&file)];
    let [table, ..] = statements();
    sessions[0].run(&table);
    let account =
        "CREATE TABLE account (id int PRIMARY KEY, balance int); INSERT INTO account VALUES (7, 0)";
    sessions[0].run(account);
    (folder, sessions)
}

/// A connection by SQLite's own program.
fn session(file: &Path) -> Session {
    let mut program = Command::new("sh");
    // Errors go to the same output.
    program.args(["-c", "exec sqlite3 -batch \"$0\" 2>&1"]).arg(file);
    Session::of(program, ".print")
}

/// Runs the page's transaction. False: a later holder has written.
fn fenced(session: &mut Session, fence: u64, balance: i64) -> bool {
    let (show, write) = parts(&transaction(), fence, balance);
    session.fenced("BEGIN IMMEDIATE", (&show, &write), |session, _| {
        session.run("SELECT changes()") == ["0"]
    })
}
