//! The state file of a module that is loaded into a running server.

use std::fs;
use std::path::PathBuf;

use harness::state_file::line_about;
use harness::{Kind, Server, apply, module_file, on_every_server, on_two_servers};

fn load() -> String {
    format!("MODULE LOADEX {} CONFIG dlock.newborn-quarantine 0", module_file::path().display())
}

/// A server without the module, and the state file for the module.
fn bare(kind: Kind) -> (Server, PathBuf) {
    let server = Server::build(kind).without_module().start();
    let file = server.state_file();
    (server, file)
}

#[apply(on_every_server)]
fn a_module_that_is_loaded_later_makes_it(kind: Kind) {
    let (mut server, file) = bare(kind);
    assert_eq!(server.run(&load()).text(), "OK");
    assert_eq!(server.node("state-file").text(), file.display().to_string());
    assert_eq!(server.node("durable").text(), "yes");
    assert_eq!(server.node("boot").int(), 1);
    let name = server.node("node-id").text();
    let fence = server.next_fence();
    server.stop();
    server.start_again();
    assert_eq!(server.run(&load()).text(), "OK");
    assert_eq!(server.node("boot").int(), 2);
    assert_eq!(server.node("node-id").text(), name);
    assert!(server.next_fence() > fence);
}

#[apply(on_two_servers)]
fn settings_that_come_with_it_count(kind: Kind) {
    let (server, _) = bare(kind);
    let load = format!("MODULE LOADEX {}", module_file::path().display());
    let loaded = server.run(&format!("{load} CONFIG dlock.state-file mine.state"));
    assert_eq!(loaded.text(), "OK");
    let file = server.folder().canonicalize().unwrap().join("mine.state");
    assert_eq!(server.node("state-file").text(), file.display().to_string());
    assert!(file.exists());
}

#[apply(on_two_servers)]
fn a_module_that_is_loaded_twice_keeps_its_file(kind: Kind) {
    let (server, file) = bare(kind);
    server.run(&load());
    let fence = server.next_fence();
    server.run(&load()).assert_error("ERR", "Error loading the extension");
    server.run("MODULE UNLOAD dlock").assert_error("ERR", "module-side data types");
    assert!(server.next_fence() > fence);

    let config = format!("dlock.state-file {}", file.display());
    let refused = Server::build(kind).config(&config).try_start();
    let log = refused.err().expect("the file is in use");
    line_about(&log, &file.display().to_string());
    assert_eq!(server.node("boot").int(), 1);
}

/// The allocator is a library that replaces libc's, as in the servers of Debian 13. Valkey loads modules apart from
/// itself, so that such a module has libc's allocator, and libc the server's.
#[apply(on_two_servers)]
fn a_server_whose_allocator_replaces_that_of_libc_loads_it(kind: Kind) {
    let server = Server::build(kind).through(&["env", "LD_PRELOAD=libjemalloc.so.2"]).start();
    let maps = fs::read_to_string(format!("/proc/{}/maps", server.process_id())).unwrap();
    assert!(maps.contains("libjemalloc"), "redis-tools of Debian brings this library");
    assert!(server.next_fence() > 0);
}
