//! `dlock agent`: a restart by SIGTERM loses no lock, and no other agent takes one over.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::sleep;
use std::time::Duration;

use harness::client::request;
use harness::{Agent, Quorum, Value, eventually, program};
use nix::sys::signal::Signal;

/// The locks that an agent hands over.
fn table(agent: &Agent) -> PathBuf {
    let mut path = agent.socket().into_os_string();
    path.push(".locks");
    path.into()
}

fn restart(agent: &mut Agent, quorum: &Quorum) {
    agent.end(Signal::SIGTERM);
    agent.start_again(&quorum.urls());
}

#[test]
fn a_restart_loses_no_lock() {
    let quorum = Quorum::start(3);
    let mut agent = Agent::start(&quorum.urls());
    let fences =
        ["job alice", "job2 alice", "reads alice", "reads bob", "done alice"].map(|name| {
            let shared = if name.starts_with("reads") { "SHARED" } else { "" };
            (name, shared, agent.run(&format!("DLOCK.ACQUIRE {name} 500000 {shared}")))
        });
    let mut tied = agent.client();
    tied.run("DLOCK.ACQUIRE tied alice 500000 EPHEMERAL RENEW").int();
    let mut waits = agent.client();
    waits.send("DLOCK.ACQUIRE job carol 20000 WAIT 0 KEEP 60000");
    eventually("carol waits", || quorum.iter().any(|node| node.traces().waiters > 0));
    agent.end(Signal::SIGTERM);
    let written = fs::metadata(table(&agent)).expect("there is a table");
    assert_eq!(written.mode() & 0o7777, 0o600);
    agent.start_again(&quorum.urls());
    agent.run("PING");
    assert!(!table(&agent).exists(), "it is removed before the agent serves");
    for (name, shared, fence) in &fences {
        assert_eq!(agent.run(&format!("DLOCK.CHECK {name}")), *fence, "{name}");
        assert_eq!(agent.run(&format!("DLOCK.EXTEND {name} 500000")), Value::Int(1), "{name}");
        let again = agent.run(&format!("DLOCK.ACQUIRE {name} 500000 {shared}"));
        assert_eq!(again, *fence, "{name}");
    }
    assert_eq!(agent.run("DLOCK.ACQUIRE reads alice 500000").code(), "OTHERMODE");
    assert_eq!(agent.run("DLOCK.RELEASE done alice DONE 500000"), Value::Int(1));
    assert_eq!(agent.run("DLOCK.ACQUIRE done bob 500000").code(), "DONE");
    assert!(agent.run("DLOCK.ACQUIRE tied bob 500000").is_null(), "its lease goes on");
    for node in quorum.iter() {
        assert_eq!(node.run("DLOCK.BREAK tied"), Value::Int(1));
    }
    // Locks without a request are handed over again.
    restart(&mut agent, &quorum);
    restart(&mut agent, &quorum);
    for (name, ..) in &fences[..4] {
        assert_eq!(agent.run(&format!("DLOCK.RELEASE {name}")), Value::Int(1), "{name}");
    }
    quorum.until_empty();
    agent.end(Signal::SIGTERM);
    assert!(!table(&agent).exists(), "there is nothing to hand over");
}

#[test]
fn an_agent_that_cannot_print_leaves_the_locks_to_the_next_one() {
    let quorum = Quorum::start(1);
    let mut agent = Agent::start(&quorum.urls());
    let fence = agent.run("DLOCK.ACQUIRE job alice 500000");
    agent.end(Signal::SIGTERM);
    let full = fs::OpenOptions::new().write(true).open("/dev/full").expect("it exists");
    let mut command = program::command(&quorum.urls());
    command.args(["agent", "--listen", &format!("unix:{}", agent.socket().display())]);
    assert!(!command.stdout(full).status().expect("it starts").success());
    agent.start_again(&quorum.urls());
    assert_eq!(agent.run("DLOCK.CHECK job alice"), fence);
}

#[test]
fn a_restart_beside_a_node_that_hangs_loses_no_lock() {
    let quorum = Quorum::start(3);
    let mut agent = Agent::with(&quorum.urls(), &["--node-timeout", "10s"]);
    let fence = agent.run("DLOCK.ACQUIRE job alice 500000");
    quorum[0].network().swallow();
    agent.end(Signal::SIGTERM);
    agent.start_again(&quorum.urls());
    assert_eq!(agent.run("DLOCK.CHECK job alice"), fence);
}

#[test]
fn a_restart_at_any_moment_loses_no_lock_of_which_a_client_was_told() {
    let quorum = Quorum::start(3);
    let mut agent = Agent::start(&quorum.urls());
    for round in 0..3 {
        let number = Arc::new(AtomicUsize::new(0));
        let clients = (0..6).map(|client| {
            let stream = UnixStream::connect(agent.socket()).expect("it listens");
            let number = Arc::clone(&number);
            std::thread::spawn(move || {
                let (mut told, mut replies) = (Vec::new(), BufReader::new(&stream));
                for n in 0.. {
                    let key = format!("job:{round}:{client}:{n}");
                    let words = ["DLOCK.ACQUIRE", &key, "alice", "500000"];
                    let asked = (&stream).write_all(&request(&words));
                    let mut reply = String::new();
                    let read = asked.and_then(|()| replies.read_line(&mut reply));
                    let fence = reply.strip_prefix(':').filter(|_| reply.ends_with('\n'));
                    match fence.and_then(|fence| fence.trim_end().parse().ok()) {
                        Some(fence) if read.is_ok() => told.push((format!("{key} alice"), fence)),
                        _ => break,
                    }
                    number.fetch_add(1, Ordering::Relaxed);
                }
                told
            })
        });
        let clients: Vec<_> = clients.collect();
        eventually("a client is told", || number.load(Ordering::Relaxed) > 0);
        sleep(Duration::from_millis(100 + round * 7));
        restart(&mut agent, &quorum);
        let told = clients.into_iter().flat_map(|client| client.join().expect("it ends"));
        let told: Vec<(String, i64)> = told.collect();
        let mut client = agent.client();
        for (name, fence) in &told {
            assert_eq!(client.run(&format!("DLOCK.CHECK {name}")), Value::Int(*fence), "{name}");
            assert_eq!(client.run(&format!("DLOCK.RELEASE {name}")), Value::Int(1), "{name}");
        }
    }
    quorum.until_empty();
}

#[test]
fn a_lock_that_was_handed_over_is_answered_for_when_a_majority_has_confirmed_it() {
    let quorum = Quorum::start(3);
    let mut agent = Agent::start(&quorum.urls());
    let fence = agent.run("DLOCK.ACQUIRE job alice 500000");
    agent.run("DLOCK.ACQUIRE gone alice 500000").int();
    restart(&mut agent, &quorum);
    quorum.iter().take(2).for_each(|node| node.network().refuse());
    for request in ["CHECK job alice", "EXTEND job alice 500000", "ACQUIRE job alice 500000"] {
        let said = agent.run(&format!("DLOCK.{request}"));
        assert_eq!(said.code(), "NOQUORUM", "{request}: {said:?}");
    }
    quorum.iter().take(2).for_each(|node| node.network().pass());
    eventually("they answer", || agent.run("DLOCK.CHECK job alice") == fence);
    // Another client has it by now.
    quorum.iter().for_each(|node| _ = node.run("DLOCK.BREAK gone"));
    quorum.iter().for_each(|node| _ = node.run("DLOCK.ACQUIRE gone bob 500000").int());
    assert_eq!(agent.run("DLOCK.EXTEND gone alice 500000"), Value::Int(0));
    assert_eq!(agent.run("DLOCK.CHECK gone alice"), Value::Null);
    assert_eq!(agent.run("DLOCK.RELEASE gone alice"), Value::Int(0));
    quorum.iter().for_each(|node| assert!(node.run("DLOCK.CHECK gone bob").is_int()));
}

#[test]
fn a_lock_without_requests_ends_with_its_lease_and_its_user_is_told() {
    let quorum = Quorum::start(1);
    let mut agent = Agent::start(&quorum.urls());
    agent.run("DLOCK.ACQUIRE job alice 20000").int();
    agent.run("DLOCK.ACQUIRE over alice 1000 WAIT 0").int();
    agent.end(Signal::SIGTERM);
    eventually("the short lease ends", || quorum.held("over") == 0);
    agent.start_again(&quorum.urls());
    assert_eq!(agent.figure("locks"), 1, "a lease that has ended is left out");
    let mut listener = agent.client();
    listener.run("SUBSCRIBE dlock:lost");
    let said = listener.recv().items()[2].text();
    assert!(said.contains("\"key\":\"job\"") && said.contains("\"why\":\"expired\""), "{said}");
    assert_eq!(agent.figure("locks"), 0);
    quorum.until_empty();
}

#[test]
fn a_table_that_is_put_back_gives_no_lock_back() {
    let quorum = Quorum::start(1);
    let mut agent = Agent::start(&quorum.urls());
    agent.run("DLOCK.ACQUIRE job alice 500000").int();
    agent.end(Signal::SIGTERM);
    let copy = fs::read(table(&agent)).expect("there is a table");
    agent.start_again(&quorum.urls());
    assert_eq!(agent.run("DLOCK.RELEASE job alice"), Value::Int(1));
    agent.end(Signal::SIGTERM);
    fs::write(table(&agent), &copy).expect("there is room");
    fs::set_permissions(table(&agent), fs::Permissions::from_mode(0o600)).expect("it is ours");
    agent.start_again(&quorum.urls());
    let bob = agent.run("DLOCK.ACQUIRE job bob 500000");
    assert!(bob.is_int());
    assert_eq!(agent.run("DLOCK.CHECK job alice"), Value::Null);
    assert_eq!(agent.run("DLOCK.ACQUIRE job alice 500000"), Value::Null);
    assert_eq!(agent.run("DLOCK.RELEASE job alice"), Value::Int(0));
    assert_eq!(agent.run("DLOCK.CHECK job bob"), bob);
}

#[test]
fn a_table_of_another_boot_or_not_the_agents_own_gives_no_lock() {
    let quorum = Quorum::start(1);
    let mut agent = Agent::start(&quorum.urls());
    agent.run("DLOCK.ACQUIRE job alice 500000").int();
    agent.end(Signal::SIGTERM);
    let path = table(&agent);
    let whole = fs::read(&path).expect("there is a table");
    let own = |bytes: &[u8], mode| {
        let _ = fs::remove_file(&path);
        fs::write(&path, bytes).expect("there is room");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("it is ours");
    };
    let mut flipped = whole.clone();
    flipped[40] ^= 1;
    let elsewhere = path.with_extension("elsewhere");
    fs::write(&elsewhere, &whole).expect("there is room");
    let cases: [(&str, bool, &dyn Fn()); 5] = [
        ("another boot", false, &|| own(&flipped, 0o600)),
        ("empty", false, &|| own(b"", 0o600)),
        ("readable by others", true, &|| own(&whole, 0o640)),
        ("a link", true, &|| {
            fs::remove_file(&path).expect("it is there");
            symlink(&elsewhere, &path).expect("there is room");
        }),
        ("of another user", true, &|| {
            own(&whole, 0o600);
            if nix::unistd::geteuid().is_root() {
                chown(&path, Some(12_345), None).expect("root may");
            } else {
                own(&whole, 0o644);
            }
        }),
    ];
    for (case, stays, put) in cases {
        put();
        agent.start_again(&quorum.urls());
        assert_eq!(agent.run("DLOCK.CHECK job alice"), Value::Null, "{case}");
        assert_eq!(fs::symlink_metadata(&path).is_ok(), stays, "{case}");
        agent.end(Signal::SIGTERM);
    }
    // The agent's own file is accepted.
    own(&whole, 0o600);
    agent.start_again(&quorum.urls());
    assert_eq!(agent.run("DLOCK.RELEASE job alice"), Value::Int(1));
}

#[test]
fn there_is_one_agent_at_a_place() {
    let quorum = Quorum::start(1);
    let mut agent = Agent::start(&quorum.urls());
    let listen = format!("unix:{}", agent.socket().display());
    let another = |folder: Option<&str>| {
        let mut command = program::command(&quorum.urls());
        command.args(["agent", "--listen", &listen]);
        folder.into_iter().for_each(|folder| _ = command.env("RUNTIME_DIRECTORY", folder));
        program::run(&mut command)
    };
    let said = another(None).with_code(64);
    assert!(said.err.contains("another agent has locked"), "{}", said.err);
    // An agent with its files elsewhere, in the first of the folders that systemd made, does not take the socket.
    let folder = agent.socket().with_extension("folder");
    fs::create_dir(&folder).expect("there is room");
    let said = another(Some(&format!("{}:/nowhere", folder.display()))).with_code(64);
    assert!(said.err.contains("another process listens there"), "{}", said.err);
    assert!(folder.join("agent.instance").exists());
    agent.end(Signal::SIGTERM);
    agent.start_again(&quorum.urls());
    assert_eq!(agent.run("PING"), Value::Simple("PONG".into()));
}

#[test]
fn an_agent_that_is_killed_gives_no_lock_back_and_shortens_no_lease() {
    let quorum = Quorum::start(1);
    let mut agent = Agent::start(&quorum.urls());
    agent.run("DLOCK.ACQUIRE job alice 500000").int();
    agent.end(Signal::SIGKILL);
    agent.start_again(&quorum.urls());
    assert_eq!(agent.run("DLOCK.EXTEND job alice 500000"), Value::Int(0));
    assert_eq!(agent.run("DLOCK.CHECK job alice"), Value::Null);
    assert_eq!(agent.run("DLOCK.RELEASE job alice"), Value::Int(0));
    assert_eq!(agent.run("DLOCK.ACQUIRE job bob 500000"), Value::Null);
    assert!(quorum.held("job") == 1);
}

#[test]
fn two_agents_that_are_asked_with_one_token_are_two_clients() {
    let quorum = Quorum::start(1);
    let (one, two) = (Agent::start(&quorum.urls()), Agent::start(&quorum.urls()));
    let fence = one.run("DLOCK.ACQUIRE job alice 500000");
    assert!(fence.is_int());
    assert_eq!(two.run("DLOCK.ACQUIRE job alice 500000"), Value::Null);
    assert_eq!(two.run("DLOCK.CHECK job alice"), Value::Null);
    assert_eq!(two.run("DLOCK.EXTEND job alice 500000"), Value::Int(0));
    assert_eq!(two.run("DLOCK.RELEASE job alice"), Value::Int(0));
    assert_eq!(one.run("DLOCK.CHECK job alice"), fence);
    let mut waits = two.client();
    waits.send("DLOCK.ACQUIRE job alice 500000 WAIT 0");
    eventually("it waits", || quorum.iter().any(|node| node.traces().waiters > 0));
    assert_eq!(one.run("DLOCK.RELEASE job alice"), Value::Int(1));
    assert!(waits.recv().int() > fence.int());
}

#[test]
fn of_a_lock_that_a_majority_has_not_any_more_no_node_keeps_a_lease() {
    let quorum = Quorum::start(3);
    let agent = Agent::start(&quorum.urls());
    agent.run("DLOCK.ACQUIRE job alice 500000").int();
    quorum.iter().for_each(|node| drop(node.run("DLOCK.BREAK job")));
    // A node that answers first is asked for its lease again.
    assert_eq!(agent.run("DLOCK.EXTEND job alice 500000"), Value::Int(0));
    quorum.until_empty();
}
