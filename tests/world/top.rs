//! `dlock top` in a terminal: what a person sees of it, and how the terminal is afterwards.

use std::fs;
use std::process::{Command, Stdio};

use harness::tmux::Tmux;
use harness::{Client, Kind, Server, eventually, process, program};

const USUAL: (u16, u16) = (80, 24);
const LARGE: (u16, u16) = (200, 60);

/// A terminal in which a script can say `$DLOCK top`.
#[track_caller]
fn terminal(servers: &[Server], size: (u16, u16), script: &str) -> Tmux {
    let nodes: Vec<String> =
        servers.iter().map(|server| format!("127.0.0.1:{}", server.port())).collect();
    terminal_with(&nodes, size, script)
}

/// A terminal as above, with nodes that may be more than one server.
#[track_caller]
fn terminal_with(nodes: &[String], size: (u16, u16), script: &str) -> Tmux {
    let mut command = program::command(nodes);
    command.env("DLOCK", program::path()).env("PS1", "shell> ");
    Tmux::start(size, &command, script)
}

/// A lock that somebody waits for.
fn contended(server: &Server) -> Client {
    let words = ["DLOCK.ACQUIRE", "job:42", "alice", "600000", "META", "host=web1 pid=4711"];
    assert!(server.client().run_args(&words).is_int());
    server.waiter("DLOCK.ACQUIRE job:42 bob 600000 WAIT 0 META host=web2")
}

/// Waits until the first line and the last are where the window begins and ends.
#[track_caller]
fn until_it_fills(tmux: &Tmux, (columns, rows): (u16, u16)) {
    eventually(&format!("it fills {columns}x{rows}"), || {
        let screen = tmux.screen();
        let lines: Vec<&str> = screen.lines().collect();
        let heading = lines.first().copied().unwrap_or_default();
        lines.len() == usize::from(rows)
            && heading.starts_with("NODE")
            && heading.chars().count() == usize::from(columns)
            && lines.last().is_some_and(|line| line.contains("q quit"))
    });
}

#[test]
fn a_small_and_a_large_window_are_filled_and_a_resized_one_is_filled_again() {
    let servers = [Server::start(Kind::Redis82), Server::start(Kind::Valkey91)];
    let _bob = contended(&servers[0]);
    let tmux = terminal(&servers, USUAL, "exec $DLOCK top");
    tmux.until_it_shows("job:42");
    for size in [USUAL, LARGE, USUAL, (60, 12)] {
        tmux.resize(size);
        until_it_fills(&tmux, size);
        let screen = tmux.screen();
        assert!(screen.contains("job:42"), "{screen}");
        assert!(screen.contains("grants"), "{screen}");
    }
    tmux.resize(LARGE);
    until_it_fills(&tmux, LARGE);
    let screen = tmux.screen();
    for words in ["P99 WAIT", "LOCKS/S", "WAITED", "LONGEST", "LATELY", "HELD BY", "web1:4711, "] {
        assert!(screen.contains(words), "{words}:\n{screen}");
    }
    // Nothing is drawn where nothing fits.
    for tiny in [(1, 1), (3, 2), (12, 4)] {
        tmux.resize(tiny);
    }
    tmux.resize(USUAL);
    until_it_fills(&tmux, USUAL);
}

#[test]
fn a_node_with_100_000_locks_and_5_000_waiters_is_shown_as_any_other() {
    let server = Server::start(Kind::Redis82);
    let mut client = server.client();
    client.pipeline((0..100_000).map(|n| format!("DLOCK.ACQUIRE quiet:{n} alice 600000")));
    let hot = |n: usize| format!("hot:{:02}", n % 50);
    client.pipeline((0..50).map(|n| format!("DLOCK.ACQUIRE {} alice 600000", hot(n))));
    let _crowd = server.crowd(5_000, |n| format!("DLOCK.ACQUIRE {} t{n} 600000 WAIT 0", hot(n)));
    let servers = [server];
    let tmux = terminal(&servers, LARGE, "exec $DLOCK top");
    eventually("the numbers of the node are seen", || {
        let screen = tmux.screen();
        let node = screen.lines().nth(1).unwrap_or_default().to_owned();
        let words: Vec<&str> = node.split_whitespace().collect();
        words.contains(&"100050") && words.contains(&"5000")
    });
    // 40 of the 50, each with its waiters.
    eventually("the hot locks are seen", || tmux.screen().matches("hot:").count() == 40);
    // The last is at the end of the table, and its page shows its queue.
    tmux.press(&["G", "Enter"]);
    tmux.until_it_shows("1 holding, 100 waiting");
    tmux.press(&["Escape"]);
    tmux.until_it_shows("WAITED");
    tmux.press(&["/"]);
    tmux.press(&["h", "o", "t", ":", "0", "7", "Enter"]);
    eventually("one is left", || tmux.screen().matches("hot:").count() == 2);
    tmux.until_it_shows("/hot:07  q quit");
}

#[test]
fn ctrl_z_gives_the_terminal_back_and_fg_comes_back() {
    let servers = [Server::start(Kind::Redis82)];
    let _bob = contended(&servers[0]);
    // A shell with job control.
    let tmux = terminal(&servers, USUAL, "exec sh -i");
    tmux.until_it_shows("shell>");
    tmux.press(&["$DLOCK top", "Enter"]);
    tmux.until_it_shows("job:42");
    assert_eq!(tmux.says("#{alternate_on}"), "1");
    for _ in 0..2 {
        tmux.press(&["C-z"]);
        tmux.until_it_shows("Stopped");
        assert_given_back(&tmux);
        tmux.press(&["clear; fg", "Enter"]);
        tmux.until_it_shows("job:42");
        assert_eq!(tmux.says("#{alternate_on}"), "1");
        // dlock top hears keys again, and each of them once.
        tmux.press(&["?"]);
        tmux.until_it_shows("to the shell; fg comes back");
        tmux.press(&["Escape"]);
        tmux.until_it_shows("WAITED");
    }
    tmux.press(&["q"]);
    tmux.until_it_shows("shell>");
    assert_given_back(&tmux);
}

#[test]
fn signals_end_it_and_give_the_terminal_back() {
    let servers = [Server::start(Kind::Redis82)];
    for (signal, code) in [("TERM", 143), ("HUP", 129), ("INT", 130), ("QUIT", 131)] {
        let tmux = terminal(&servers, USUAL, SAYS_HOW_IT_ENDED);
        tmux.until_it_shows("nobody waits");
        let said = Command::new("kill").arg(format!("-{signal}")).arg(program_in(&tmux)).status();
        assert!(said.is_ok_and(|status| status.success()));
        tmux.until_it_shows(&format!("ended {code}."));
        assert_given_back(&tmux);
    }
}

/// The test makes epoll_wait, with which tokio waits, fail: that is a panic.
#[test]
fn a_panic_gives_the_terminal_back_and_says_what_it_was() {
    let servers = [Server::start(Kind::Redis82)];
    let tmux = terminal(&servers, LARGE, SAYS_HOW_IT_ENDED);
    tmux.until_it_shows("nobody waits");
    let program = program_in(&tmux);
    let mut strace = Command::new("strace");
    strace.args(["-e", "trace=epoll_wait", "-e", "inject=epoll_wait:error=EBADF"]);
    for thread in workers(&program) {
        strace.args(["-p", &thread]);
    }
    strace.stdout(Stdio::null()).stderr(Stdio::null());
    let mut strace = process::spawn(strace).expect("strace is missing: run `make setup`");
    tmux.until_it_shows("ended 70.");
    let screen = tmux.screen();
    assert!(screen.contains("panicked at"), "{screen}");
    assert_given_back(&tmux);
    strace.wait().expect("it is ours");
}

#[test]
fn what_clients_put_into_keys_and_meta_moves_nothing_on_the_screen() {
    let server = Server::start(Kind::Redis82);
    let hostile: [&[u8]; 5] = [
        b"\x1b[2J\x1b[31mred\x1b]0;title\x07",
        b"\xff\xfe\x00\xc3\x28",
        b"\r\n\t\x08\x9b31m\xc2\x9b31m",
        "\u{202e}reversed\u{200b}\u{1f468}\u{200d}\u{1f469}".as_bytes(),
        &b"long:".repeat(40_000),
    ];
    let mut client = server.client();
    for key in hostile {
        let meta = &key[..key.len().min(60)];
        client.run_args(&[b"DLOCK.ACQUIRE", key, b"alice", b"600000", b"META", meta]);
        for token in [b"bob", b"eve"].repeat(20) {
            client.run_args(&[b"DLOCK.ACQUIRE", key, token, b"600000"]);
        }
    }
    let servers = [server];
    let tmux = terminal(&servers, USUAL, "exec $DLOCK top");
    tmux.until_it_shows("\\x1b[2J\\x1b[31mred");
    let title = tmux.says("#{pane_title}");
    for size in [USUAL, LARGE] {
        tmux.resize(size);
        until_it_fills(&tmux, size);
        let screen = tmux.screen();
        let lines: Vec<&str> = screen.lines().collect();
        assert!(lines[1].contains("grants"), "{screen}");
        let keys = lines.iter().position(|line| line.starts_with("KEY")).expect("it is there");
        for words in ["\\x1b[2J", "\\xff\\xfe\\x00", "\\x0d\\x0a", "long:long:"] {
            let rows = &lines[keys + 1..keys + 6];
            assert!(rows.iter().any(|row| row.starts_with(words)), "{words}:\n{screen}");
        }
        assert!(!screen.contains(['\u{202e}', '\u{200b}', '\u{9b}']), "{screen:?}");
    }
    assert_ne!(title, "title");
    // The page of each of them, too; but of a name that is too long to be kept whole there is none.
    for place in 0..hostile.len() {
        tmux.press(&[&["g"], &["j"].repeat(place)[..], &["Enter"]].concat());
        eventually("its page is shown, or why not", || {
            let screen = tmux.screen();
            screen.contains("1 holding, 0 waiting") || screen.contains("its whole name")
        });
        assert!(tmux.screen().lines().nth(1).is_some_and(|node| node.contains("grants")));
        tmux.press(&["Escape"]);
        tmux.until_it_shows("WAITED");
    }
}

/// The usual screen is back, with its cursor, and a shell on it sees and is seen.
#[track_caller]
fn assert_given_back(tmux: &Tmux) {
    assert_eq!(tmux.says("#{alternate_on} #{cursor_flag}"), "0 1");
    let mut stty = Command::new("stty");
    stty.args(["-a", "-F", &tmux.says("#{pane_tty}")]);
    let said = program::run(&mut stty).with_code(0).out;
    for word in ["icanon", "echo", "isig", "opost", "icrnl"] {
        assert!(said.split_whitespace().any(|other| other == word), "{word}: {said}");
    }
}

/// The process of the program that the shell of the window has started.
#[track_caller]
fn program_in(tmux: &Tmux) -> String {
    let shell = tmux.says("#{pane_pid}");
    let mut found = Vec::new();
    eventually("the shell has a child", || {
        let children = program::run(Command::new("ps").args(["-o", "pid=", "--ppid", &shell])).out;
        found = children.split_whitespace().map(str::to_owned).collect();
        found.len() == 1
    });
    found.remove(0)
}

/// The threads of tokio that wait for the network.
#[track_caller]
fn workers(program: &str) -> Vec<String> {
    let threads = fs::read_dir(format!("/proc/{program}/task")).expect("it runs");
    let names = threads.map(|thread| {
        let path = thread.expect("it can be read").path();
        let name = fs::read_to_string(path.join("comm")).unwrap_or_default();
        (path.file_name().expect("it is a number").to_string_lossy().into_owned(), name)
    });
    let workers: Vec<String> =
        names.filter(|(_, name)| name.starts_with("tokio")).map(|(id, _)| id).collect();
    assert_eq!(workers.len(), 2);
    workers
}

const SAYS_HOW_IT_ENDED: &str = "$DLOCK top; echo \"ended $?.\"; exec cat";
