//! `dlock break KEY [TOKEN]`

use std::fs::File;
use std::io::{Read, Write};
use std::process::Stdio;

use harness::{apply, program};
use nix::pty::openpty;

use crate::{addresses, dlock, on_two_servers, servers, take};

#[apply(on_two_servers)]
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
    assert!(said.err.starts_with(&format!("dlock: {three}: ")), "{}", said.err);
    servers[1].stop();
    dlock(&servers, &["break", "-y", "job"]).with_code(69);
}

#[apply(on_two_servers)]
fn somebody_has_to_agree(kind: Kind) {
    let servers = servers(kind, 1);
    take(&servers, b"job", "alice", "");
    let said = dlock(&servers, &["break", "job"]).with_code(64);
    assert!(said.err.contains("--yes"), "{}", said.err);
    let is_held = || !servers[0].run("DLOCK.INSPECT job").is_null();
    for (answer, code, held) in [("\n", 1, true), ("n\n", 1, true), ("y\n", 0, false)] {
        let terminal = openpty(None, None).expect("a terminal can be had");
        let end = || Stdio::from(terminal.slave.try_clone().expect("a file can be shared"));
        let mut command = program::command(&addresses(&servers));
        command.args(["break", "job"]).stdin(end()).stdout(Stdio::null()).stderr(end());
        let mut child = command.spawn().expect("the program can be started");
        let mut typist = File::from(terminal.master);
        let mut question = [0; 16];
        typist.read_exact(&mut question).expect("it asks");
        assert_eq!(&question, b"End the lock job");
        typist.write_all(answer.as_bytes()).expect("a terminal can be typed at");
        let status = child.wait().expect("it ends");
        assert_eq!((status.code(), is_held()), (Some(code), held), "{answer:?}");
    }
}
