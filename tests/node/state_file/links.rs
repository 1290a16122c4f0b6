//! A state file behind a symbolic link, as containers link it to their volume. The link is followed and
//! stays. A link or file that changed since the server's start is refused by name.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use harness::quarantine::CRASHED;
use harness::{Kind, Server, apply, eventually, on_one_server, on_two_servers};

/// A server that was shut down cleanly; then its state file moved to a volume, with a link to it.
fn linked(kind: Kind) -> (Server, PathBuf) {
    let mut server = Server::start(kind);
    server.stop();
    let volume = server.folder().canonicalize().unwrap().join("volume");
    fs::create_dir(&volume).unwrap();
    let target = volume.join("node.state");
    fs::rename(server.state_file(), &target).unwrap();
    symlink("volume/node.state", server.state_file()).unwrap();
    (server, target)
}

fn is_link(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|data| data.is_symlink())
}

/// Asks for more than is promised: it has to be written first.
#[track_caller]
fn ask_for_more(server: &Server) -> harness::Value {
    let longer = server.node("lease-bound-ms").int() + 1;
    server.run(&format!("DLOCK.ACQUIRE far zed {longer}"))
}

#[apply(on_one_server)]
fn a_link_is_followed_and_stays(kind: Kind) {
    let (mut server, target) = linked(kind);
    let link = server.state_file();
    server.start_again();
    assert_eq!(server.node("state-file").text(), target.display().to_string());
    assert_eq!(server.node("boot").int(), 2);
    let said = format!("state file {}, by the link {}", target.display(), link.display());
    assert!(server.log().contains(&said), "{}", server.log());
    assert!(ask_for_more(&server).is_int());
    let fence = server.next_fence();
    server.kill();
    assert!(is_link(&link));
    let lock = target.with_extension("state.lock");
    assert!(lock.exists(), "what is beside the file is on the volume");

    // As with a new container: only the volume is left.
    fs::remove_file(&link).unwrap();
    symlink(&target, &link).unwrap();
    server.start_again();
    server.assert_in_quarantine(CRASHED);
    assert_eq!(server.node("boot").int(), 3);
    server.run("CONFIG SET dlock.quarantine off");
    assert!(server.next_fence() > fence);
}

#[apply(on_one_server)]
fn a_link_that_leads_nowhere_is_refused(kind: Kind) {
    let (mut server, target) = linked(kind);
    let link = server.state_file();
    let gone = target.with_extension("gone");
    fs::rename(&target, &gone).unwrap();
    let line = server.refusal(&link.display().to_string());
    assert!(line.contains("a symbolic link that leads nowhere"), "{line}");
    assert!(line.contains(&target.display().to_string()), "{line}");
    assert!(is_link(&link) && !target.exists());

    for nowhere in [&link, Path::new("missing/node.state"), Path::new("volume/..")] {
        fs::remove_file(&link).unwrap();
        symlink(nowhere, &link).unwrap();
        let line = server.refusal(&link.display().to_string());
        assert!(line.contains("a symbolic link"), "{line}");
    }
    fs::remove_file(&link).unwrap();
    symlink("volume", &link).unwrap();
    let line = server.refusal(&target.parent().unwrap().display().to_string());
    assert!(line.contains("a directory, not a plain file"), "{line}");

    fs::remove_file(&link).unwrap();
    fs::rename(&gone, &target).unwrap();
    symlink(&target, &link).unwrap();
    server.start_again();
    assert_eq!(server.node("boot").int(), 2, "starts that were refused are none");
}

/// The next start would not find what is written now.
#[apply(on_two_servers)]
fn a_link_that_is_changed_while_the_server_runs_is_refused(kind: Kind) {
    let (mut server, target) = linked(kind);
    let (link, other) = (server.state_file(), target.with_extension("other"));
    fs::copy(&target, &other).unwrap();
    server.start_again();
    let before = fs::read(&other).unwrap();
    fs::remove_file(&link).unwrap();
    symlink(&other, &link).unwrap();
    assert_is_refused_by_name(&server, &[&link, &other, &target]);
    assert_eq!(fs::read(&other).unwrap(), before);
    assert!(is_link(&link) && !is_link(&other));

    fs::remove_file(&link).unwrap();
    symlink(&target, &link).unwrap();
    eventually("it is written again", || server.node("durable").text() == "yes");
    assert!(ask_for_more(&server).is_int());
}

#[track_caller]
fn assert_is_refused_by_name(server: &Server, names: &[&Path]) {
    assert_eq!(ask_for_more(server).code(), "NOTDURABLE");
    eventually("it says so", || server.node("durable").text() == "failing");
    let why = server.node("state-file-error").text();
    for name in names {
        assert!(why.contains(&name.display().to_string()), "{why}");
    }
    assert!(server.log().contains(&why));
}
