//! A state file belongs to one server at a time: a second one with the same file refuses to start until the
//! first has ended, in any way.

use std::os::unix::fs::symlink;
use std::path::Path;

use harness::state_file::line_about;
use harness::{Kind, Server, apply, eventually, on_one_server, on_two_servers, scratch};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// A server with the state file of another.
fn second(kind: Kind, file: &Path) -> harness::Builder {
    let file = file.display();
    Server::build(kind).config(&format!("dlock.state-file {file}")).config("dlock.quarantine off")
}

/// Asserts that another server refuses the state file of a running one, and names that.
#[track_caller]
fn assert_in_use(server: &Server) {
    let file = server.state_file();
    let refused = second(server.kind(), &file).try_start();
    let log = refused.err().expect("two servers use one state file");
    assert!(!log.starts_with("exit status: 0"), "{log}");
    let line = line_about(&log, &file.display().to_string());
    let owner = format!("a server that is running (process {})", server.process_id());
    assert!(line.contains("# <module> dlock: ") && line.contains(&owner), "{line}");
}

#[apply(on_two_servers)]
fn a_second_server_refuses_it_and_the_first_goes_on(kind: Kind) {
    let first = Server::start(kind);
    let mut last = first.next_fence();
    for _ in 0..3 {
        assert_in_use(&first);
        // The first server still writes the file, too.
        let ahead = first.fences().1 + 60_000_000;
        let fence = first.run(&format!("DLOCK.ACQUIRE job alice 60000 FENCE {ahead}")).int();
        assert!(fence >= ahead && fence > last, "{fence} after {last}");
        first.run("DLOCK.RELEASE job alice");
        last = fence;
    }
    let node = first.run("DLOCK.NODE");
    assert_eq!(node.at("boot").int(), 1);
    assert_eq!(node.at("durable").text(), "yes");
}

#[apply(on_one_server)]
fn another_way_to_the_file_is_no_way_around(kind: Kind) {
    let first = Server::start(kind);
    let folder = scratch::folder();
    let way = folder.path().join("way");
    symlink(first.folder(), &way).unwrap();
    let name = format!("dlock-{}.state", first.port());
    let refused = second(kind, &way.join(&name)).try_start();
    let log = refused.err().expect("two servers use one state file");
    line_about(&log, &name);
}

#[apply(on_one_server)]
fn when_the_first_has_gone_the_second_takes_over(kind: Kind) {
    for end in [Server::kill as fn(&mut Server), Server::stop] {
        let mut first = Server::start(kind);
        let name = first.node("node-id").text();
        let last = first.next_fence();
        assert_in_use(&first);
        end(&mut first);
        let second = second(kind, &first.state_file()).start();
        assert_eq!(second.node("node-id").text(), name);
        assert_eq!(second.node("boot").int(), 2, "the start that was refused is none");
        assert!(second.next_fence() > last);
        let log = first.try_start_again().expect_err("the second has it now");
        assert!(!log.starts_with("exit status: 0"), "{log}");
    }
}

/// A process that ends with the test.
struct Orphan(Pid);

impl Orphan {
    /// True while it runs: a process that has ended may wait for its parent to notice.
    fn lives(&self) -> bool {
        let state = std::fs::read_to_string(format!("/proc/{}/stat", self.0)).unwrap_or_default();
        let state = state.rsplit(") ").next().unwrap_or_default().to_owned();
        !state.is_empty() && !state.starts_with('Z')
    }
}

impl Drop for Orphan {
    fn drop(&mut self) {
        let _ = kill(self.0, Signal::SIGKILL);
    }
}

/// A child of the server that is going to save for a minute.
#[track_caller]
fn saving_child(server: &Server) -> Orphan {
    for key in 0..600 {
        server.run(&format!("SET key{key} value"));
    }
    server.run("BGSAVE");
    let words = "Background saving started by pid ";
    let mut child = None;
    eventually("the child is started", || {
        let log = server.log();
        let number = log.split(words).nth(1).and_then(|rest| rest.lines().next());
        child = number.and_then(|number| number.trim().parse().ok());
        child.is_some()
    });
    // The child tells its parent at the first key that it saves, and ends if there is no parent.
    eventually("the child saves", || server.info_number("persistence", "current_cow_peak") > 0);
    Orphan(Pid::from_raw(child.expect("it is started")))
}

#[apply(on_two_servers)]
fn a_child_that_still_saves_does_not_keep_it(kind: Kind) {
    let slow = || {
        let server = Server::build(kind).config("rdb-key-save-delay 100000");
        server.config("dlock.quarantine off")
    };
    let mut server = slow().start();
    let last = server.next_fence();
    let child = saving_child(&server);
    server.kill();
    server.start_again();
    assert!(child.lives(), "the child still saves");
    assert_eq!(server.node("boot").int(), 2);
    assert!(server.next_fence() > last);
    assert_in_use(&server);
}

/// The lock of a file goes when any descriptor of it is closed, in the child or the parent.
#[apply(on_two_servers)]
fn a_child_that_ends_does_not_give_it_away(kind: Kind) {
    let server = Server::build(kind).config("rdb-key-save-delay 1000").start();
    server.run("SET key value");
    for words in ["BGSAVE", "BGREWRITEAOF"] {
        server.run(words);
        eventually("the child has ended", || {
            let state = server.info("persistence");
            state["rdb_bgsave_in_progress"] == "0" && state["aof_rewrite_in_progress"] == "0"
        });
        assert_in_use(&server);
    }
}
