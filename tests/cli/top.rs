//! `dlock top`: one frame as text, and the screen in a terminal.

use harness::{Client, Kind, Quorum, apply, on_one_server};

use crate::run_terminal::on_a_terminal;
use crate::{addresses, dlock, servers};

/// A lock with a waiter.
fn contended(server: &harness::Server) -> Client {
    server.run("DLOCK.ACQUIRE job:42 alice 600000 META host=web1");
    server.waiter("DLOCK.ACQUIRE job:42 bob 600000 WAIT 0 META the-waiter")
}

const DONE: &str = "RELEASE nightly carol DONE 600000 META carols-host";

#[apply(on_one_server)]
fn one_frame_shows_the_nodes_and_the_locks_that_hurt(kind: Kind) {
    let mut servers = servers(kind, 2);
    let node = addresses(&servers)[0].clone();
    let _bob = contended(&servers[0]);
    for words in ["ACQUIRE nightly carol 600000", "ACQUIRE nightly dave 600000", DONE] {
        servers[0].run(&format!("DLOCK.{words}"));
    }
    servers[1].stop();
    let said = dlock(&servers, &["top", "--once"]).with_code(0);
    let lines: Vec<&str> = said.out.lines().collect();
    assert!(lines[0].starts_with("NODE") && lines[0].contains("P99 WAIT"), "{}", said.out);
    assert!(lines[1].starts_with(&node) && lines[1].contains("grants"), "{}", said.out);
    assert!(!lines[2].contains("grants"), "{}", said.out);
    let job = lines.iter().find(|line| line.starts_with("job:42")).expect("it is hot");
    assert!(job.contains("web1"), "{job}");
    let done = lines.iter().find(|line| line.starts_with("nightly")).expect("it is hot, too");
    assert!(done.contains("done by carols-host, "), "{done}");
    assert!(!said.out.contains('\x1b'), "it is text");
}

#[apply(on_one_server)]
fn without_a_terminal_it_names_the_option_that_needs_none(kind: Kind) {
    let servers = servers(kind, 1);
    let said = dlock(&servers, &["top"]).with_code(64);
    assert!(said.err.contains("--once"), "{}", said.err);
}

#[apply(on_one_server)]
fn hostile_keys_do_not_reach_the_terminal(kind: Kind) {
    let servers = servers(kind, 1);
    let mut client = servers[0].client();
    let key = [&b"\x1b[2J\x07\xff"[..], &b"x".repeat(16_000)].concat();
    // Refusals decay, by half each minute: some are left in any case.
    for token in ["alice"].into_iter().chain([["bob"; 4]; 5].concat()) {
        let meta = b"\x1b]0;title\x07";
        client.run_args(&[b"DLOCK.ACQUIRE", &key[..], token.as_bytes(), b"600000", b"META", meta]);
    }
    let said = dlock(&servers, &["top", "--once"]).with_code(0);
    assert!(said.out.contains("\\x1b[2J\\x07\\xff"), "{}", said.out);
    assert!(
        said.out.chars().all(|letter| letter == '\n' || !letter.is_control()),
        "{:?}",
        said.out
    );
}

#[test]
fn in_a_terminal_a_lock_is_selected_and_looked_at() {
    let quorum = Quorum::start(1);
    let _bob = contended(&quorum[0]);
    let mut top = on_a_terminal(&quorum, "stty rows 24 cols 80; $DLOCK top; echo \"code $?\"");
    top.until_it_prints("job:42");
    top.write(b"\r");
    top.until_it_prints("the-waiter");
    top.write(b"q");
    let said = top.ended().with_code(0);
    assert!(said.out.contains("code 0"), "{}", said.out);
    // dlock top leaves the alternate screen.
    assert!(said.out.contains("\x1b[?1049l"));
}

/// Its name's page would show another lock.
#[test]
fn a_hot_lock_of_another_database_has_no_page() {
    let quorum = Quorum::start(1);
    let mut other = quorum[0].client();
    other.run("SELECT 5");
    for token in ["alice", "bob"] {
        other.run(&format!("DLOCK.ACQUIRE payroll {token} 600000"));
    }
    quorum[0].run("DLOCK.ACQUIRE payroll carol 600000");
    let mut top = on_a_terminal(&quorum, "stty rows 24 cols 80; $DLOCK top");
    top.until_it_prints("payroll (db 5)");
    top.write(b"\r");
    top.until_it_prints("in another database");
    top.write(b"q");
    top.ended().with_code(0);
}
