//! `dlock break KEY [TOKEN]`

use std::fs::File;
use std::io::{Read, Write};
use std::process::Stdio;

use harness::{Kind, Server, apply, on_one_server, program};
use nix::pty::openpty;

use crate::{addresses, dlock, servers, take};

#[apply(on_one_server)]
fn every_node_says_how_many_leases_ended(kind: Kind) {
    let mut servers = servers(kind, 3);
    take(&servers, b"job", "alice", "SHARED");
    take(&servers[..1], b"job", "bob", "SHARED");
    let said = dlock(&servers, &["break", "--yes", "job"]).with_code(0);
    let [one, two, three] = [0, 1, 2].map(|index| addresses(&servers)[index].clone());
    let lines = format!("{one}: 2 leases ended\n{two}: 1 lease ended\n{three}: 1 lease ended\n");
    assert_eq!(said.out, lines);
    dlock(&servers, &["break", "--yes", "job"]).with_code(1);

    take(&servers, b"job", "alice", "SHARED");
    take(&servers, b"job", "bob", "SHARED");
    let said = dlock(&servers, &["break", "--yes", "--json", "job", "bob"]).with_code(0).json();
    assert!(said.iter().all(|node| node["ended"] == 1), "{said:?}");
    assert_eq!(servers[0].run("DLOCK.INSPECT job").at("holders").items().len(), 1);

    servers[2].stop();
    let said = dlock(&servers, &["break", "-y", "job"]).with_code(0);
    assert!(said.err.contains(&format!("dlock: {three}: ")), "{}", said.err);
    servers[1].stop();
    dlock(&servers, &["break", "-y", "job"]).with_code(69);
}

/// Also in the log of a script.
#[apply(on_one_server)]
fn what_is_about_to_be_ended_is_shown(kind: Kind) {
    let servers = servers(kind, 3);
    take(&servers[..2], b"job", "alice", "META who=alice");
    let said = dlock(&servers, &["break", "--yes", "job"]).with_code(0);
    let first = said.err.lines().next().expect("it is shown");
    assert!(first.starts_with("job: held on 2 of 3 nodes"), "{}", said.err);
    assert_eq!(said.err.matches("who=alice").count(), 2, "{}", said.err);
    assert!(!said.err.contains(" alice "), "a token is a secret: {}", said.err);
    assert_eq!(
        dlock(&servers, &["break", "--yes", "--json", "job"]).with_code(1).err.lines().count(),
        1
    );
}

#[apply(on_one_server)]
fn where_there_is_nothing_to_end_that_is_said_without_a_question(kind: Kind) {
    let servers = servers(kind, 1);
    let said = dlock(&servers, &["break", "--yes", "job"]).with_code(1);
    assert_eq!(
        (&said.err[..], &said.out[..]),
        ("dlock: no client holds 'job': there is nothing to end\n", "")
    );
    let (said, code) = at_a_terminal(&servers, |_| {});
    assert_eq!((code, said.contains("[y/N]")), (Some(1), false), "{said}");
    servers[0].run("SET job old-token PX 60000");
    let said = dlock(&servers, &["break", "--yes", "job"]).with_code(1);
    assert!(said.err.contains("a plain string"), "{}", said.err);
    assert_eq!(servers[0].run("GET job").text(), "old-token");
}

/// The holder on the screen is ended, and no later one.
#[apply(on_one_server)]
fn a_lock_that_changes_hands_while_one_thinks_is_shown_anew(kind: Kind) {
    let servers = servers(kind, 1);
    take(&servers, b"job", "alice", "META who=alice");
    let (said, code) = at_a_terminal(&servers, |typist| {
        until_asked(typist);
        servers[0].run("DLOCK.RELEASE job alice");
        take(&servers, b"job", "bob", "META who=bob");
        typist.write_all(b"y\n").expect("a terminal can be typed at");
        until_asked(typist);
        typist.write_all(b"n\n").expect("a terminal can be typed at");
    });
    assert_eq!(code, Some(1), "{said}");
    assert_eq!(servers[0].holders("job"), ["bob"]);
}

/// Runs `dlock break job` at a terminal, and returns the remaining output.
fn at_a_terminal(servers: &[Server], type_in: impl FnOnce(&mut File)) -> (String, Option<i32>) {
    let terminal = openpty(None, None).expect("a terminal can be had");
    let end = || Stdio::from(terminal.slave.try_clone().expect("a file can be shared"));
    let mut command = program::command(&addresses(servers));
    command
        .args(["--node-timeout", program::PATIENT, "break", "job"])
        .stdin(end())
        .stdout(Stdio::null())
        .stderr(end());
    let mut child = command.spawn().expect("the program can be started");
    let mut typist = File::from(terminal.master);
    type_in(&mut typist);
    let status = child.wait().expect("it ends");
    drop((terminal.slave, command));
    let mut rest = Vec::new();
    // The terminal returns an error once its other end is closed.
    let _ = typist.read_to_end(&mut rest);
    (String::from_utf8_lossy(&rest).into_owned(), status.code())
}

/// Reads until it asks.
fn until_asked(terminal: &mut File) {
    let mut said = Vec::new();
    while !said.ends_with(b"[y/N] ") {
        let mut byte = [0];
        terminal.read_exact(&mut byte).expect("it asks");
        said.extend(byte);
    }
}

#[apply(on_one_server)]
fn the_operator_has_to_agree(kind: Kind) {
    let servers = servers(kind, 1);
    take(&servers, b"job", "alice", "");
    let said = dlock(&servers, &["break", "job"]).with_code(64);
    assert!(said.err.contains("--yes"), "{}", said.err);
    let is_held = || !servers[0].run("DLOCK.INSPECT job").is_null();
    for (answer, code, held) in [("\n", 1, true), ("n\n", 1, true), ("y\n", 0, false)] {
        let (said, ended) = at_a_terminal(&servers, |typist| {
            until_asked(typist);
            typist.write_all(answer.as_bytes()).expect("a terminal can be typed at");
        });
        assert_eq!((ended, is_held()), (Some(code), held), "{answer:?}: {said}");
    }
}
