//! The state file: its path, its content, and the state that outlives a start by it.

use std::collections::BTreeSet;
use std::fs;

use harness::{Client, Kind, Server, apply, eventually, on_one_server, on_two_servers, scratch};

#[track_caller]
fn assert_hex(name: &str) {
    assert_eq!(name.len(), 32, "{name}");
    assert!(name.chars().all(|c| c.is_ascii_hexdigit() && !c.is_ascii_uppercase()), "{name}");
}

#[apply(on_two_servers)]
fn the_first_start_makes_it(kind: Kind) {
    let server = Server::start(kind);
    let node = server.run("DLOCK.NODE");
    assert_eq!(node.at("state-file").text(), server.state_file().display().to_string());
    assert_eq!(node.at("durable").text(), "yes");
    assert_eq!(node.at("state-file-error").text(), "");
    assert_eq!(node.at("boot").int(), 1);
    assert_eq!(node.at("quarantine-ms").int(), 0);
    assert_hex(&node.at("node-id").text());

    let name = format!("dlock-{}.state", server.port());
    let expected = [name.clone(), name + ".lock"];
    eventually("nothing else is left of it", || server.state_files() == expected);
}

/// The process stays the same and becomes another server.
#[apply(on_two_servers)]
fn a_restart_inside_the_process_is_a_start(kind: Kind) {
    let server = Server::start(kind);
    let name = server.node("node-id").text();
    let mut last = server.next_fence();
    for (boot, words) in [(2, "DEBUG RESTART"), (3, "DEBUG CRASH-AND-RECOVER")] {
        server.client().send(words);
        let mut node = None;
        eventually("it is back", || {
            node = ask_node(server.port()).filter(|node| node.at("boot").int() == boot);
            node.is_some()
        });
        assert_eq!(node.expect("it is back").at("node-id").text(), name);
        let mut client = server.client();
        client.run("CONFIG SET dlock.quarantine off");
        let fence = client.run(&format!("DLOCK.ACQUIRE job{boot} alice 60000")).int();
        assert!(fence > last, "{fence} after {last}");
        last = fence;
    }
}

/// Asks a server that may be down or still loading.
fn ask_node(port: u16) -> Option<harness::Value> {
    let mut client = Client::connect(port).ok()?;
    client.try_send_raw(b"DLOCK.NODE\r\n").ok()?;
    client.try_recv().ok().filter(|node| !node.is_error())
}

#[apply(on_two_servers)]
fn it_is_in_the_folder_of_the_data_and_stays_there_when_that_changes(kind: Kind) {
    let (first, then) = (scratch::folder(), scratch::folder());
    let mut server = Server::build(kind)
        .config(&format!("dir {}", first.path().display()))
        .config("enable-protected-configs yes")
        .config("dlock.quarantine off")
        .start();
    let file = first.path().canonicalize().unwrap();
    let file = file.join(format!("dlock-{}.state", server.port()));
    let name = server.node("node-id").text();
    assert_eq!(server.node("state-file").text(), file.display().to_string());
    assert_eq!(server.state_files(), [""; 0], "nothing where it is not");

    let moved = server.run(&format!("CONFIG SET dir {}", then.path().display()));
    assert_eq!(moved.text(), "OK");
    let before = fs::read(&file).unwrap();
    let ahead = server.fences().1 + 60_000_000;
    assert!(server.run(&format!("DLOCK.ACQUIRE job alice 60000 FENCE {ahead}")).int() >= ahead);
    assert_ne!(fs::read(&file).unwrap(), before);
    assert_eq!(server.node("state-file").text(), file.display().to_string());
    server.kill();
    assert_eq!(fs::read_dir(then.path()).unwrap().count(), 0);
    server.start_again();
    assert_eq!(server.node("node-id").text(), name);
    assert!(server.next_fence() > ahead);
}

#[apply(on_one_server)]
fn it_can_be_anywhere_under_any_name(kind: Kind) {
    let folder = scratch::folder();
    let file = folder.path().canonicalize().unwrap().join("my löcks.v1");
    let file = file.display().to_string();
    let mut server = Server::build(kind).config(&format!("dlock.state-file \"{file}\"")).start();
    let name = server.node("node-id").text();
    assert_eq!(server.node("state-file").text(), file);
    assert_eq!(server.node("durable").text(), "yes");
    assert_eq!(server.state_files(), [""; 0], "nothing at the usual place");
    server.restart();
    assert_eq!(server.node("boot").int(), 2);
    assert_eq!(server.node("node-id").text(), name);
    assert!(fs::read_to_string(file).unwrap().starts_with("dlock-state 1\n"));
}

#[apply(on_one_server)]
fn without_one_a_node_works_by_the_clock_and_remembers_nothing(kind: Kind) {
    let mut server = Server::build(kind).config("dlock.state-file \"\"").start();
    let mut names = BTreeSet::new();
    let mut last = 0;
    for _ in 0..2 {
        let node = server.run("DLOCK.NODE");
        assert_eq!(node.at("durable").text(), "no");
        assert_eq!(node.at("state-file").text(), "");
        assert_eq!(node.at("state-file-error").text(), "");
        assert_eq!(node.at("boot").int(), 1);
        assert_eq!(node.at("fence-reserved").int(), 0);
        assert_eq!(node.at("granting").text(), "yes");
        assert_hex(&node.at("node-id").text());
        names.insert(node.at("node-id").text());

        let fence = server.run("DLOCK.ACQUIRE job alice 60000").int();
        assert!(fence > last, "{fence} after {last}");
        let ahead = fence + 300_000_000;
        assert!(server.run(&format!("DLOCK.ACQUIRE far bob 600000 FENCE {ahead}")).int() > fence);
        assert_eq!(server.run("DLOCK.EXTEND job alice 70000").int(), 1);
        assert_eq!(server.run("DLOCK.RELEASE job alice").int(), 1);
        assert_eq!(server.node("fence-reserved").int(), 0);
        last = fence;
        server.restart();
    }
    assert_eq!(names.len(), 2, "a name for each life");
    assert_eq!(server.state_files(), [""; 0]);
}

#[apply(on_two_servers)]
fn the_configuration_shows_it_and_keeps_it(kind: Kind) {
    let server = Server::start(kind);
    let get =
        |server: &Server| server.run("CONFIG GET dlock.state-file").at("dlock.state-file").text();
    assert_eq!(get(&server), format!("dlock-{}.state", server.port()));
    for value in ["other.state", "/dev/shm/other.state", "no"] {
        let refused = server.run(&format!("CONFIG SET dlock.state-file {value}"));
        assert!(refused.error().contains("immutable"), "{refused:?}");
    }
    let mut client = server.client();
    client.run_args(&["CONFIG", "SET", "dlock.state-file", ""]).assert_error("ERR", "immutable");
    assert_eq!(get(&server), format!("dlock-{}.state", server.port()));

    for (line, value) in [("mine.state", "mine.state"), ("\"\"", "")] {
        let server = Server::build(kind).config(&format!("dlock.state-file {line}")).start();
        assert_eq!(get(&server), value);
        assert_eq!(server.run("CONFIG REWRITE").text(), "OK");
        let file = fs::read_to_string(server.folder().join("server.conf")).unwrap();
        let own: Vec<&str> = file.lines().filter(|line| line.contains("state-file")).collect();
        let quoted = format!("dlock.state-file \"{value}\"");
        assert!(own == [quoted] || own == [format!("dlock.state-file {line}")], "{own:?}");
    }
}

#[apply(on_one_server)]
fn one_that_is_removed_under_a_server_is_made_again(kind: Kind) {
    let mut server = Server::build(kind).config("dlock.quarantine off").start();
    let name = server.node("node-id").text();
    let mut last = server.next_fence();
    for (boot, end) in [(2, Server::stop as fn(&mut Server)), (3, Server::kill)] {
        fs::remove_file(server.state_file()).unwrap();
        // Beyond what was promised, so that it has to be written.
        let ahead = server.fences().1 + 60_000_000;
        assert!(server.run(&format!("DLOCK.ACQUIRE job alice 60000 FENCE {ahead}")).int() > last);
        end(&mut server);
        server.start_again();
        assert_eq!(server.node("boot").int(), boot);
        assert_eq!(server.node("node-id").text(), name);
        last = server.next_fence();
        assert!(last > ahead, "{last} after {ahead}");
    }
}
