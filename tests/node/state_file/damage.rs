//! A state file that was changed, or cannot be used. The server refuses to start, names the file and the
//! remedy in one line, and leaves the file as it is.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use harness::{Kind, Server, apply, module_file, on_one_server, on_two_servers};
use nix::sys::signal::Signal;

/// A server after a clean end, and its files.
struct Ended {
    server: Server,
    file: PathBuf,
    good: Vec<u8>,
    name: String,
    fence: i64,
}

impl Ended {
    fn new(kind: Kind) -> Ended {
        let mut server = Server::start(kind);
        let name = server.node("node-id").text();
        let fence = server.next_fence();
        server.stop();
        let file = server.state_file();
        let good = fs::read(&file).unwrap();
        Ended { server, file, good, name, fence }
    }

    /// Starts the server with this in its file, and returns its error.
    #[track_caller]
    fn refusal(&mut self, text: &[u8]) -> String {
        fs::write(&self.file, text).unwrap();
        let line = self.server.refusal(&self.file.display().to_string());
        assert_eq!(fs::read(&self.file).unwrap(), text, "the file was changed: {line}");
        assert!(line.contains("# <module> dlock: "), "it is a warning: {line}");
        line
    }

    #[track_caller]
    fn assert_refused(&mut self, text: &[u8]) {
        let line = self.refusal(text);
        assert!(line.contains("damaged"), "{line}");
        assert_tells_what_to_do(&line);
    }

    /// Asserts that with the good file again the server goes on from its end.
    #[track_caller]
    fn assert_goes_on(mut self) {
        fs::write(&self.file, &self.good).unwrap();
        self.server.start_again();
        let node = self.server.run("DLOCK.NODE");
        assert_eq!(node.at("boot").int(), 2, "starts that were refused are none");
        assert_eq!(node.at("node-id").text(), self.name);
        assert_eq!(node.at("quarantine-ms").int(), 0);
        assert!(self.server.next_fence() > self.fence);
    }
}

#[track_caller]
fn assert_tells_what_to_do(line: &str) {
    assert!(
        line.contains("no older copy") && line.contains("move the file away"),
        "it does not say what to do: {line}"
    );
}

#[apply(on_one_server)]
fn one_of_a_later_version_is_refused_as_such(kind: Kind) {
    let mut ended = Ended::new(kind);
    let text = String::from_utf8(ended.good.clone()).unwrap();
    for version in ["2", "10", "4294967296"] {
        let text = text.replacen("dlock-state 1", &format!("dlock-state {version}"), 1);
        for text in [text, format!("dlock-state {version}\nanything else\n")] {
            let line = ended.refusal(text.as_bytes());
            assert!(line.contains("later"), "{line}");
        }
    }
    for version in ["0", "", "one", "1.1", "-1"] {
        let text = text.replacen("dlock-state 1", &format!("dlock-state {version}"), 1);
        ended.assert_refused(text.as_bytes());
    }
    ended.assert_goes_on();
}

/// A write would replace a link, and not the file that it leads to.
#[apply(on_one_server)]
fn what_is_no_plain_file_is_refused(kind: Kind) {
    for program in ["mkdir", "mkfifo", "ln -s kept"] {
        let mut ended = Ended::new(kind);
        fs::rename(&ended.file, ended.file.with_file_name("kept")).unwrap();
        let mut words = program.split(' ');
        let made = Command::new(words.next().unwrap()).args(words).arg(&ended.file).status();
        assert!(made.unwrap().success());
        let line = ended.server.refusal(&ended.file.display().to_string());
        assert!(line.contains("not a plain file"), "{line}");
        fs::remove_dir(&ended.file).or_else(|_| fs::remove_file(&ended.file)).unwrap();
        ended.assert_goes_on();
    }
}

/// To open some of them would take for ever; and a server leaves foreign files alone.
#[apply(on_one_server)]
fn what_is_no_plain_file_in_the_place_of_one_beside_it_is_refused(kind: Kind) {
    let mut ended = Ended::new(kind);
    for name in [".lock", ".tmp"] {
        for (program, kind) in
            [("mkdir", "a directory"), ("mkfifo", "a FIFO"), ("ln -s /dev/null", "a symbolic link")]
        {
            let beside = PathBuf::from(format!("{}{name}", ended.file.display()));
            let _ = fs::remove_file(&beside);
            let mut words = program.split(' ');
            let made = Command::new(words.next().unwrap()).args(words).arg(&beside).status();
            assert!(made.unwrap().success());
            let line = ended.server.refusal(&ended.file.display().to_string());
            let named = format!("{}: it is {kind}, not a plain file", beside.display());
            assert!(line.contains(&named), "{line}");
            let left = fs::symlink_metadata(&beside).expect("it is left alone").file_type();
            assert!(!left.is_file());
            fs::remove_dir(&beside).or_else(|_| fs::remove_file(&beside)).unwrap();
        }
    }
    ended.assert_goes_on();
}

/// A file left by a crash. The server replaces it and does not write into it, for it may have another name,
/// too.
#[apply(on_one_server)]
fn a_file_that_a_crash_has_left_beside_it_is_replaced(kind: Kind) {
    let mut ended = Ended::new(kind);
    let left = PathBuf::from(format!("{}.tmp", ended.file.display()));
    let other = ended.file.with_extension("other");
    fs::write(&left, "half a rec").unwrap();
    fs::hard_link(&left, &other).unwrap();
    ended.server.start_again();
    assert_eq!(fs::read_to_string(&other).unwrap(), "half a rec");
    ended.server.stop();
    assert!(!left.exists());
}

/// The module is loaded by hand and refuses: the server goes on, and no part of the module does.
#[apply(on_two_servers)]
fn a_server_that_runs_lives_on_when_the_module_refuses_to_load(kind: Kind) {
    let server = Server::build(kind).without_module().start();
    let folder = format!("{}.tmp", server.state_file().display());
    fs::create_dir(&folder).unwrap();
    let path = module_file::path();
    let load = format!("MODULE LOADEX {} CONFIG dlock.newborn-quarantine 0", path.display());
    for _ in 0..20 {
        assert!(server.run(&load).is_error());
    }
    assert!(!has_thread(&server, "dlock-state"));
    assert_eq!(server.run("PING").text(), "PONG");
    fs::remove_dir(&folder).unwrap();
    assert_eq!(server.run(&load).text(), "OK");
    assert!(has_thread(&server, "dlock-state"));
    assert!(server.next_fence() > 0);
}

fn has_thread(server: &Server, name: &str) -> bool {
    let threads = fs::read_dir(format!("/proc/{}/task", server.process_id())).unwrap();
    let name_of = |thread: fs::DirEntry| fs::read_to_string(thread.path().join("comm"));
    threads.flatten().any(|thread| name_of(thread).is_ok_and(|own| own.trim_end() == name))
}

/// With this signal the server's watchdog asks what the main thread does.
#[apply(on_two_servers)]
fn the_thread_that_writes_leaves_the_watchdogs_signal_to_the_server(kind: Kind) {
    let server = Server::start(kind);
    let threads = fs::read_dir(format!("/proc/{}/task", server.process_id())).unwrap();
    let status = threads
        .map(|thread| fs::read_to_string(thread.unwrap().path().join("status")).unwrap())
        .find(|status| status.starts_with("Name:\tdlock-state\n"))
        .expect("there is such a thread");
    let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:\t")).unwrap();
    let blocked = u64::from_str_radix(blocked, 16).unwrap();
    assert_eq!(blocked & (1 << (Signal::SIGALRM as u32 - 1)), 1 << (Signal::SIGALRM as u32 - 1));
}

#[apply(on_one_server)]
fn a_place_in_which_it_cannot_be_written_is_refused(kind: Kind) {
    let ended = Ended::new(kind);
    let good = ended.file.display();
    // The promise of a good one could not be renewed, nor its crash be told from a clean end.
    let good_one = format!(
        "mkdir disk; mount -t tmpfs tmpfs disk; cp {good} disk/my.state
         cp {good} disk/my.state.lock; mount -o remount,bind,ro disk"
    );
    let read_only = "mkdir disk; mount -t tmpfs -o ro tmpfs disk";
    let full = "mkdir disk; mount -t tmpfs -o size=64k tmpfs disk
        head -c 65536 /dev/zero >disk/filler";
    for (mounts, file, words) in [
        ("true", "missing/my.state", "No such file or directory"),
        ("true", &"n".repeat(300), "File name too long"),
        // No user can make files there, not even root.
        ("true", "/sys/kernel/my.state", ""),
        (read_only, "disk/my.state", "Read-only file system"),
        (&good_one, "disk/my.state", "Read-only file system"),
        (full, "disk/my.state", "No space left on device"),
    ] {
        let builder = Server::build(kind).with_mounts(mounts);
        let line =
            first_refusal(builder.config(&format!("dlock.state-file {file}")).try_start(), file);
        assert!(line.contains(words), "{line}");
    }
    ended.assert_goes_on();
}

/// The server's error about a file that prevents its first start.
#[track_caller]
fn first_refusal(started: Result<Server, String>, file: &str) -> String {
    let log = started.err().expect("it starts all the same");
    assert!(!log.starts_with("exit status: 0"), "{log}");
    let lines = log.lines().filter(|line| line.contains("<module> dlock: ") && line.contains(file));
    let lines: Vec<&str> = lines.collect();
    assert_eq!(lines.len(), 1, "one line about {file}:\n{log}");
    lines[0].to_owned()
}
