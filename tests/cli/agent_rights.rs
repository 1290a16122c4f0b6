//! `dlock agent`: rights to connect, and to lock keys.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

use harness::client::request;
use harness::{
    Agent, Client, Kind, Server, Value, apply, eventually, many, on_one_server, scratch,
};
use nix::sys::resource::{Resource, getrlimit};
use nix::sys::signal::Signal;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket};

use crate::{addresses, agent, dlock_at, servers};

const UNREACHABLE: &str = "127.0.0.1:1";

/// An agent that also serves clients at a port, with the password in this file.
fn at_port(servers: &[Server], password_file: &str) -> (Agent, u16) {
    let folder = scratch::folder();
    let file = folder.path().join("password");
    fs::write(&file, password_file).expect("there is room");
    let port = harness::ports::free();
    let listen = format!("tcp:127.0.0.1:{port}");
    let file = file.to_str().expect("it is text");
    let agent = Agent::with(&addresses(servers), &["--listen", &listen, "--password-file", file]);
    let asks = |mut client: Client| client.run("PING").code() == "NOAUTH";
    eventually("it serves there", || Client::connect(port).is_ok_and(asks));
    (agent, port)
}

#[apply(on_one_server)]
fn the_socket_is_for_its_owner_and_group(kind: Kind) {
    let (_servers, agent) = agent(kind);
    let mode = fs::metadata(agent.socket()).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o660);
}

#[apply(on_one_server)]
fn a_user_may_lock_the_keys_that_are_allowed(kind: Kind) {
    let servers = servers(kind, 1);
    let uid = format!("uid={}", nix::unistd::getuid());
    let arguments = ["--allow", &uid, "keys=web:*", "--allow", "uid=12345", "keys=*"];
    let agent = Agent::with(&addresses(&servers), &arguments);
    let mut client = agent.client();
    client.run("DLOCK.ACQUIRE web:1 alice 500000").int();
    for request in ["ACQUIRE job alice 30000", "RELEASE job alice", "CHECK job a"] {
        let said = client.run(&format!("DLOCK.{request}"));
        assert!(said.text().starts_with("NOPERM "), "{request}: {said:?}");
    }
    assert!(servers[0].run("DLOCK.INSPECT job").is_null());
}

#[apply(on_one_server)]
fn a_client_without_the_password_that_does_not_read_is_not_read_any_more(kind: Kind) {
    let servers = servers(kind, 1);
    let (_agent, port) = at_port(&servers, "secret");
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    stream.set_write_timeout(Some(Duration::from_secs(1))).expect("it is open");
    // More than sockets hold.
    let error = stream.write_all(&request(&["PING"]).repeat(3_000_000)).expect_err("it is full");
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
}

#[apply(on_one_server)]
fn a_port_needs_a_password(kind: Kind) {
    let servers = servers(kind, 1);
    let (agent, port) = at_port(&servers, "secret word\n");
    let connect = || Client::connect(port).expect("it listens");
    let mut client = connect();
    for request in ["DLOCK.ACQUIRE job alice 500000", "PING", "HELLO 3", "SUBSCRIBE dlock:lost"] {
        assert!(client.run(request).text().starts_with("NOAUTH "), "{request}");
    }
    assert!(client.run("AUTH wrong").text().starts_with("WRONGPASS "));
    assert_eq!(client.run_args(&["AUTH", "secret word"]), Value::Simple("OK".into()));
    assert!(client.run("AUTH wrong").text().starts_with("WRONGPASS "), "once more");
    client.run("DLOCK.ACQUIRE job alice 500000").int();
    let mut client = connect();
    let hello = client.run_args(&["HELLO", "3", "AUTH", "default", "secret word"]);
    assert!(matches!(hello, Value::Map(_)), "{hello:?}");
    let mut client = connect();
    client.send_raw(b"POST / HTTP/1.1\r\n\r\n");
    assert!(client.recv().is_error() && client.is_closed_by_server());
    assert_eq!(agent.run("AUTH anything"), Value::Simple("OK".into()), "a socket needs none");
}

#[apply(on_one_server)]
fn a_user_that_takes_all_the_connections_it_may_harms_no_other(kind: Kind) {
    many::lift_limit();
    let servers = servers(kind, 1);
    let (agent, port) = at_port(&servers, "word");
    // The user of this process. A client over TCP is another one.
    let greet = || {
        let mut stream = UnixStream::connect(agent.socket()).expect("it listens");
        // A client that is refused gets the error unasked.
        let _ = stream.write_all(&request(&["PING"]));
        let mut said = [0; 64];
        let length = stream.read(&mut said).expect("it answers");
        (stream, String::from_utf8_lossy(&said[..length]).into_owned())
    };
    let mut crowd = Vec::new();
    let refused = loop {
        match greet() {
            (stream, said) if said == "+PONG\r\n" => crowd.push(stream),
            (_, said) => break said,
        }
    };
    assert_eq!(refused, "-ERR max number of clients reached\r\n");
    // Three eighths of the open files are for connections, and half of those for one user alone.
    let (_, files) = getrlimit(Resource::RLIMIT_NOFILE).expect("limits can be read");
    assert_eq!(crowd.len() as u64, 30_000.min(files / 8 * 3) / 2);
    let mut other = Client::connect(port).expect("it listens");
    other.run("AUTH word");
    other.run("DLOCK.ACQUIRE job bob 500000").int();
    assert_eq!(other.run("DLOCK.RELEASE job bob"), Value::Int(1));
    crowd.truncate(1_000);
    eventually("there is room again", || greet().1 == "+PONG\r\n");
}

#[apply(on_one_server)]
fn clients_without_the_password_keep_no_client_out(kind: Kind) {
    many::lift_limit();
    let (_, files) = getrlimit(Resource::RLIMIT_NOFILE).expect("limits can be read");
    let room = 1_000.min(files / 16);
    let servers = servers(kind, 1);
    let (agent, port) = at_port(&servers, "word");
    let connect = || Client::connect(port).expect("it listens");
    let mut early = connect();
    assert!(!early.run("AUTH word").is_error());
    let strangers = (0..room + 100).map(|_| {
        let mut client = connect();
        assert_eq!(client.run("PING").code(), "NOAUTH");
        client
    });
    let mut crowd: Vec<Client> = strangers.collect();
    assert!(!connect().run("AUTH word").is_error(), "there is room for whoever has it");
    crowd.drain(..100).for_each(|mut oldest| assert!(oldest.is_closed_by_server()));
    early.run("DLOCK.ACQUIRE job alice 500000").int();
    let newest = crowd.last_mut().expect("the newest are there");
    newest.send_raw(b"*2\r\n$4\r\nAUTH\r\n$5000\r\n");
    assert!(newest.recv().is_error() && newest.is_closed_by_server());
    drop(crowd);
    eventually("they are forgotten", || agent.figure("connections") <= 2);
}

#[apply(on_one_server)]
fn an_agent_needs_no_more_rights_at_the_nodes_than_its_page_says(kind: Kind) {
    let page = include_str!("../../docs/agent.md");
    let rights = page.lines().find(|line| line.starts_with("~job:* ")).expect("the page has them");
    let servers = servers(kind, 3);
    for server in &servers {
        let made = server.run(&format!("ACL SETUSER app reset on >secret {rights}"));
        assert_eq!(made.text(), "OK");
    }
    let nodes: Vec<String> =
        addresses(&servers).iter().map(|at| format!("redis://app:secret@{at}")).collect();
    let agent = Agent::start(&nodes);
    for job in ["job:kept", "job:done"] {
        let fence = agent.run(&format!("DLOCK.ACQUIRE {job} alice 500000"));
        assert_eq!(agent.run(&format!("DLOCK.CHECK {job} alice")), fence);
        assert_eq!(agent.run(&format!("DLOCK.EXTEND {job} alice 500000")), Value::Int(1));
        assert_eq!(agent.run(&format!("DLOCK.ACQUIRE {job} bob 500000")), Value::Null);
    }
    assert_eq!(agent.run("DLOCK.RELEASE job:done alice DONE 500000"), Value::Int(1));
    assert_eq!(agent.run("DLOCK.RELEASE job:kept alice"), Value::Int(1));
    assert_eq!(agent.run("DLOCK.ACQUIRE job:done carol 500000").code(), "DONE");
    let logs = servers.iter().flat_map(|server| server.run("ACL LOG").items().to_vec());
    let refused: Vec<String> = logs.map(|entry| entry.at("object").text()).collect();
    assert!(refused.iter().all(|command| command.contains("client|setinfo")), "{refused:?}");
}

#[test]
fn an_agent_listens_nowhere_else() {
    let nodes = [UNREACHABLE.to_owned()];
    for (listen, why) in [
        ("tcp:0.0.0.0:7000", "on this machine alone"),
        ("tcp:127.0.0.1:0", "--password-file"),
        ("tcp:10.0.0.1:7000", "on this machine alone"),
        ("tcp:localhost:1", "expected tcp:"),
        ("localhost:7000", "unix:PATH or tcp:"),
        ("unix:", "unix:PATH or tcp:"),
        ("unix:/no/such/folder/agent.sock", "cannot listen"),
    ] {
        let said = dlock_at(&nodes, &["agent", "--listen", listen]).with_code(64);
        assert!(said.err.contains(why), "{listen}: {}", said.err);
    }
    let rule = ["agent", "--listen", "unix:x", "--allow", "uid=1", "web:*"];
    assert!(dlock_at(&nodes, &rule).with_code(64).err.contains("must name the keys"));
}

/// A connection, if there is room for one more.
fn nonblocking(at: &UnixAddr) -> Option<OwnedFd> {
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let socket =
        socket(AddressFamily::Unix, SockType::Stream, flags, None).expect("the system has one");
    connect(socket.as_raw_fd(), at).ok().map(|()| socket)
}

#[test]
fn an_agent_leaves_files_alone_that_are_not_its_own() {
    let nodes = [UNREACHABLE.to_owned()];
    let folder = scratch::folder();
    let file = folder.path().join("data");
    fs::write(&file, "data").expect("there is room");
    let said = dlock_at(&nodes, &["agent", "--listen", &format!("unix:{}", file.display())]);
    assert!(said.with_code(64).err.contains("no socket"));
    assert_eq!(fs::read(&file).expect("it is there"), b"data");

    let mut agent = Agent::start(&nodes);
    fs::remove_file(agent.socket()).expect("it is there");
    let another = UnixListener::bind(agent.socket()).expect("the place is free");
    let path = agent.socket();
    agent.end(Signal::SIGTERM);
    assert!(UnixStream::connect(&path).is_ok(), "another process listens there");
    // A crowd fills the queue, so that there is no room for one more connection.
    let listen = format!("unix:{}", path.display());
    let at = UnixAddr::new(&path).expect("it is a path");
    let crowd: Vec<_> = std::iter::from_fn(|| nonblocking(&at)).collect();
    let said = dlock_at(&nodes, &["agent", "--listen", &listen]).with_code(64);
    assert!(said.err.contains("another process listens there"), "{}", said.err);
    drop((crowd, another));
}
