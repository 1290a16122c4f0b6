//! `dlock agent`: clients and agents that fail. No other client is harmed, and no lock outlives its lease.

use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::time::{Duration, Instant};

use harness::client::request;
use harness::{
    Agent, Client, Kind, Quorum, Server, Value, apply, eventually, many, on_one_server, process,
    program, scratch,
};
use nix::sys::signal::Signal;

use crate::{addresses, agent, servers};

/// The agent's memory, in kB.
fn memory(agent: &Agent) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", agent.running().id()));
    let status = status.expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    number.expect("the system tells it")
}

fn waiters(servers: &[Server]) -> i64 {
    servers[0].traces().waiters
}

#[apply(on_one_server)]
fn a_wait_that_is_cut_off_leaves_nothing_but_its_keep(kind: Kind) {
    let (servers, agent) = agent(kind);
    agent.run("DLOCK.ACQUIRE job alice 500000").int();
    for options in ["WAIT 0", "WAIT 0 KEEP 1000"] {
        let mut bob = agent.client();
        bob.send(&format!("DLOCK.ACQUIRE job bob 1000 {options}"));
        eventually("bob waits", || waiters(&servers) == 1);
        bob.close();
        eventually("it ends", || agent.figure("locks") == 1 && waiters(&servers) == 0);
    }
    agent.run("DLOCK.RELEASE job alice");
    agent.run("DLOCK.ACQUIRE job carol 500000").int();
}

#[apply(on_one_server)]
fn waits_that_are_cut_off_just_when_the_lock_is_granted_are_released_for_good(kind: Kind) {
    let (servers, agent) = agent(kind);
    let mut holder = agent.client();
    for round in 0..100 {
        holder.run("DLOCK.ACQUIRE job alice 500000 WAIT 0").int();
        let mut bob = agent.client();
        bob.send(&format!("DLOCK.ACQUIRE job bob:{round} 500000 WAIT 0"));
        eventually("bob waits", || waiters(&servers) == 1);
        holder.send("DLOCK.RELEASE job alice");
        // Now, or a little later: while the grant is on its way.
        let pause = Instant::now() + Duration::from_micros(round * 6);
        while Instant::now() < pause {}
        bob.close();
        assert_eq!(holder.recv(), Value::Int(1));
        // As in the recipe: the grant may have been on its way already.
        assert!(agent.run(&format!("DLOCK.RELEASE job bob:{round} FINAL")).is_int());
    }
    eventually("nothing is left", || {
        let traces = servers[0].traces();
        (traces.leases, traces.waiters) == (0, 0) && agent.figure("locks") == 0
    });
}

#[apply(on_one_server)]
fn an_end_is_noticed_behind_a_wait_with_requests_that_are_not_read(kind: Kind) {
    let (servers, agent) = agent(kind);
    agent.run("DLOCK.ACQUIRE job alice 500000").int();
    let mut bob = agent.client();
    bob.send("DLOCK.ACQUIRE job bob 500000 WAIT 0");
    eventually("bob waits", || waiters(&servers) == 1);
    bob.send_raw(&request(&["PING"]).repeat(6_000));
    bob.close();
    eventually("bob is gone", || agent.figure("locks") == 1 && waiters(&servers) == 0);
}

#[apply(on_one_server)]
fn an_end_is_noticed_by_a_wait_that_begins_after_it(kind: Kind) {
    let (servers, agent) = agent(kind);
    agent.run("DLOCK.ACQUIRE job alice 500000").int();
    let bob = UnixStream::connect(agent.socket()).expect("it listens");
    let tied = request(&["DLOCK.ACQUIRE", "tied", "bob", "500000", "EPHEMERAL", "RENEW"]);
    let waits = request(&["DLOCK.ACQUIRE", "job", "bob", "500000", "WAIT", "0"]);
    servers[0].pause();
    (&bob).write_all(&[tied, waits].concat()).expect("there is room");
    bob.shutdown(Shutdown::Write).expect("it is open");
    servers[0].resume();
    eventually("bob is gone", || agent.figure("connections") == 1);
    eventually("and his lock", || agent.figure("locks") == 1 && servers[0].traces().leases == 1);
}

#[apply(on_one_server)]
fn a_pipeline_is_answered_in_order_and_a_wait_holds_it_up(kind: Kind) {
    let (servers, agent) = agent(kind);
    agent.run("DLOCK.ACQUIRE job alice 500000").int();
    let mut client = agent.client();
    client.send("PING first");
    client.send("DLOCK.ACQUIRE job bob 500000 WAIT 0");
    client.send("PING last");
    assert_eq!(client.recv().text(), "first", "what was answered is sent");
    eventually("bob waits", || waiters(&servers) == 1);
    assert!(!client.has_answer());
    agent.run("DLOCK.RELEASE job alice");
    client.recv().int();
    assert_eq!(client.recv().text(), "last");
}

#[apply(on_one_server)]
fn a_client_that_reads_after_a_pipeline_of_a_hundred_thousand_requests_is_answered(kind: Kind) {
    const REQUESTS: usize = 100_000;
    let (_servers, agent) = agent(kind);
    let before = memory(&agent);
    let mut stream = UnixStream::connect(agent.socket()).expect("it listens");
    stream.set_write_timeout(Some(Duration::from_secs(30))).expect("it is open");
    let requests = request(&["ECHO", "0123456789"]).repeat(REQUESTS);
    stream.write_all(&requests).expect("the agent reads");
    // The client does not read for a while, and the agent answers others.
    agent.run("DLOCK.ACQUIRE job alice 500000").int();
    assert!(memory(&agent) < before + 10_000, "{} kB, before {before}", memory(&agent));
    let expected = b"$10\r\n0123456789\r\n";
    let mut answers = vec![0; expected.len() * REQUESTS];
    stream.read_exact(&mut answers).expect("all are answered");
    assert!(answers.chunks(expected.len()).all(|answer| answer == expected));
}

#[apply(on_one_server)]
fn a_client_that_never_reads_is_closed_and_others_of_its_user_are_served(kind: Kind) {
    let (_servers, agent) = agent(kind);
    let mut stream = UnixStream::connect(agent.socket()).expect("it listens");
    stream.set_write_timeout(Some(Duration::from_secs(30))).expect("it is open");
    let requests = request(&["ECHO", "0123456789"]).repeat(1_000_000);
    let error = stream.write_all(&requests).expect_err("there is a limit");
    assert!(error.kind() != ErrorKind::WouldBlock, "it is closed: {error}");
    assert!(memory(&agent) < 100_000, "{} kB", memory(&agent));
    agent.run("DLOCK.ACQUIRE job alice 500000").int();
}

#[apply(on_one_server)]
fn nonsense_is_answered_and_closes_its_connection_alone(kind: Kind) {
    let (_servers, agent) = agent(kind);
    let mut other = agent.client();
    other.run("DLOCK.ACQUIRE job alice 500000 EPHEMERAL").int();
    let before = memory(&agent);
    let (large, many) = (b"x".repeat(2_000), b"*65\r\n".to_vec());
    // Short: the agent closes the connection at the first wrong byte.
    let nested = b"*1\r\n".repeat(800);
    let cases: [&[u8]; 9] = [
        b"*2\r\n$4\r\nECHO\r\n$536870912\r\n",
        b"*1000000000\r\n",
        b"*-5\r\n",
        b"*1\r\n$-1\r\n",
        b"POST / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"PING\r\n",
        &large,
        &many,
        &nested,
    ];
    for bytes in cases {
        let mut client = agent.client();
        client.send_raw(bytes);
        let said = client.recv();
        assert!(said.text().starts_with("ERR "), "{said:?}");
        assert!(client.is_closed_by_server());
    }
    let mut client = agent.client();
    client.send_raw(&(0..=255).cycle().take(5_000).collect::<Vec<u8>>());
    assert!(memory(&agent) < before + 4_000, "{} kB, before {before}", memory(&agent));
    assert!(other.run("DLOCK.CHECK job alice").is_int());
}

#[test]
fn an_agent_that_is_stopped_for_longer_than_a_lease_says_that_it_is_lost() {
    let quorum = Quorum::start(1);
    let (one, two) = (Agent::start(&quorum.urls()), Agent::start(&quorum.urls()));
    let (mut client, mut listener) = (one.client(), one.client());
    listener.run("SUBSCRIBE dlock:lost");
    client.run("DLOCK.ACQUIRE job alice 2000 EPHEMERAL RENEW WAIT 0").int();
    one.running().signal(Signal::SIGSTOP);
    two.run("DLOCK.ACQUIRE job bob 500000 WAIT 0").int();
    one.running().signal(Signal::SIGCONT);
    assert_eq!(client.run("DLOCK.CHECK job alice"), Value::Null);
    assert_eq!(client.run("DLOCK.EXTEND job alice 2000"), Value::Int(0));
    assert_eq!(client.run("DLOCK.RELEASE job alice"), Value::Int(0));
    assert!(listener.recv().items()[2].text().contains("\"key\":\"job\""));
    assert!(two.run("DLOCK.CHECK job bob").is_int());
}

#[test]
fn an_agent_that_ends_leaves_an_ephemeral_lock_to_its_lease() {
    let quorum = Quorum::start(3);
    let mut one = Agent::start(&quorum.urls());
    let mut tied = one.client();
    for (key, options) in [("job", "EPHEMERAL RENEW CLOSE"), ("other", "EPHEMERAL")] {
        tied.run(&format!("DLOCK.ACQUIRE {key} alice 500000 {options}")).int();
    }
    one.end(Signal::SIGTERM);
    assert!(tied.is_closed_by_server());
    // Its holder may still be at work.
    for node in quorum.iter() {
        assert_eq!(node.node("leases").int(), 2);
    }
    let two = Agent::start(&quorum.urls());
    assert!(two.run("DLOCK.ACQUIRE job bob 500000").is_null());
}

#[test]
fn a_grant_counts_from_the_request_that_it_answers() {
    const TTL: Duration = Duration::from_secs(60);
    let quorum = Quorum::start(2);
    let agent = Agent::start(&quorum.urls());
    let mut client = agent.client();
    client.run("DLOCK.CHECK job bob");
    quorum[1].pause();
    let slice = "DLOCK.ACQUIRE job bob 60000 WAIT 1000 KEEP 60000";
    client.run(slice);
    let sent = Instant::now();
    client.send(slice);
    eventually("it arrives", || agent.figure("waiting") == 1);
    quorum[1].resume();
    client.recv().int();
    for node in quorum.iter() {
        let found = node.run("DLOCK.INSPECT job");
        let left = found.at("holders").items()[0].at("ttl-ms").int();
        assert!(Duration::from_millis(left.unsigned_abs()) + sent.elapsed() >= TTL, "{left}");
    }
}

/// Loses this many locks with long keys.
fn lose(agent: &Agent, server: &Server, locks: u32) {
    let mut client = agent.client();
    for first in (0..locks).step_by(50) {
        let some = first..locks.min(first + 50);
        let requests = |verb| move |n| format!("DLOCK.{verb} {n:x>16000} alice 500000");
        let acquired = client.pipeline(some.clone().map(requests("ACQUIRE")));
        assert!(acquired.iter().all(Value::is_int));
        server.client().pipeline(some.clone().map(|n| format!("DLOCK.BREAK {n:x>16000}")));
        let extended = client.pipeline(some.map(requests("EXTEND")));
        assert!(extended.iter().all(|one| *one == Value::Int(0)), "they are lost");
    }
}

#[apply(on_one_server)]
fn subscribers_that_do_not_read_are_cut_off_and_cost_little_memory(kind: Kind) {
    const LOSSES: u32 = 200;
    let (servers, agent) = agent(kind);
    let subscribed = || {
        let mut client = agent.client();
        client.run("SUBSCRIBE dlock:lost");
        client
    };
    let deaf: Vec<Client> = (0..60).map(|_| subscribed()).collect();
    let mut listener = subscribed();
    let hears = std::thread::spawn(move || (0..LOSSES).for_each(|_| drop(listener.recv())));
    lose(&agent, &servers[0], LOSSES);
    hears.join().expect("the other subscriber hears all of them");
    assert!(memory(&agent) < 120_000, "{} kB", memory(&agent));
    lose(&agent, &servers[0], 2 * LOSSES);
    assert!(memory(&agent) < 120_000, "{} kB", memory(&agent));
    assert!(agent.run("DLOCK.ACQUIRE job alice 500000").is_int());
    // They have fallen behind the agent's buffer.
    for mut client in deaf {
        eventually("it is cut off", || client.try_recv_within(Duration::from_secs(10)).is_err());
    }
}

#[apply(on_one_server)]
fn connections_whose_clients_do_not_read_have_a_bound_in_bytes(kind: Kind) {
    const CLIENTS: usize = 2_000;
    many::lift_limit();
    let (_servers, agent) = agent(kind);
    // The sockets have room for some of these replies, and the agent keeps the next one.
    let unread = request(&["ECHO", &"x".repeat(60_000)]).repeat(5);
    let part = unread[..60_000].to_vec();
    // A request waits, and a long one before it has left its buffer.
    agent.run("DLOCK.ACQUIRE job alice 500000").int();
    let long = request(&["ECHO", &"x".repeat(60_000)]);
    let behind = |n: usize| {
        let wait = request(&["DLOCK.ACQUIRE", "job", &n.to_string(), "500000", "WAIT", "0"]);
        [&long[..], &wait, &request(&["PING"])].concat()
    };
    assert_bounded(&agent, |_| unread.clone(), CLIENTS);
    assert_bounded(&agent, |_| part.clone(), CLIENTS);
    assert_bounded(&agent, behind, CLIENTS);
}

/// Sends these bytes over many connections.
fn assert_bounded(agent: &Agent, requests: impl Fn(usize) -> Vec<u8>, clients: usize) {
    let connect = |n| {
        let mut stream = UnixStream::connect(agent.socket()).expect("it listens");
        // The agent may have closed it by now.
        let _ = stream.write_all(&requests(n));
        stream
    };
    let deaf: Vec<UnixStream> = (0..clients).map(connect).collect();
    eventually("some are closed", || agent.figure("connections") < clients as u64 * 9 / 10);
    assert!(agent.figure("connections") > 50);
    assert!(memory(agent) < 250_000, "{} kB", memory(agent));
    assert!(agent.run("DLOCK.ACQUIRE job alice 500000").is_int());
    drop(deaf);
    eventually("all are closed", || agent.figure("connections") < 10);
}

#[apply(on_one_server)]
fn a_client_that_does_not_read_holds_up_no_end(kind: Kind) {
    let (_servers, mut agent) = agent(kind);
    let mut stream = UnixStream::connect(agent.socket()).expect("it listens");
    stream.set_nonblocking(true).expect("it is open");
    let requests = request(&["ECHO", &"x".repeat(60_000)]).repeat(20);
    let sent = stream.write(&requests).expect("there is room");
    assert!(sent > 0);
    eventually("it is served", || agent.figure("connections") == 2);
    agent.end(Signal::SIGTERM);
}

#[apply(on_one_server)]
fn a_long_name_takes_the_room_of_many(kind: Kind) {
    let (_servers, agent) = agent(kind);
    let mut client = agent.client();
    let key = |n: u64| format!("{n:x>16000}");
    // One user can have half of the room, and a name counts eight times.
    let mut acquire = |n| client.run(&format!("DLOCK.ACQUIRE {} alice 500000", key(n)));
    let taken = (0..2_200).take_while(|n| acquire(*n).is_int()).count();
    assert!((1_600..2_200).contains(&taken), "{taken}");
    assert_eq!(acquire(2_200).code(), "TOOMANY");
    let another = format!("DLOCK.ACQUIRE {} alice 500000", key(9_999));
    // A request takes more room than a lock.
    for n in 0..2 {
        assert_eq!(client.run(&format!("DLOCK.RELEASE {} alice", key(n))), Value::Int(1));
    }
    eventually("there is room again", || client.run(&another).is_int());
}

#[apply(on_one_server)]
fn requests_that_were_cut_off_count_for_their_user_until_they_are_read(kind: Kind) {
    const REQUESTS: u64 = 300;
    let servers = servers(kind, 1);
    // The node is paused, and no request times out.
    let agent = Agent::with(&addresses(&servers), &["--node-timeout", "10m"]);
    agent.run("DLOCK.ACQUIRE job alice 500000").int();
    let extend = || {
        let mut client = agent.client();
        client.send("DLOCK.EXTEND job alice 500000");
        client
    };
    servers[0].pause();
    // These keep the lock busy.
    let [mut first, mut second] = [extend(), extend()];
    for _ in 0..REQUESTS {
        let mut client = agent.client();
        client.send("DLOCK.ACQUIRE job alice 500000 WAIT 1");
        client.close();
    }
    eventually("all count", || agent.figure("connections") > REQUESTS);
    servers[0].resume();
    assert_eq!((first.recv(), second.recv()), (Value::Int(1), Value::Int(1)));
    eventually("they are left out", || agent.figure("connections") <= 3);
    let asked = servers[0].info("commandstats")["cmdstat_dlock.acquire"].clone();
    let asked = asked.strip_prefix("calls=").and_then(|rest| rest.split(',').next()?.parse().ok());
    assert!(asked.is_some_and(|asked: u64| asked < REQUESTS / 2), "{asked:?}");
    assert_eq!(agent.run("DLOCK.RELEASE job alice"), Value::Int(1));
}

#[test]
fn an_outage_is_that_of_the_waiters() {
    let agent = Agent::start(&["127.0.0.1:1".to_owned()]);
    let waits = |token: &str| {
        let mut client = agent.client();
        client.send(&format!("DLOCK.ACQUIRE job {token} 10 WAIT 0 KEEP 10"));
        client
    };
    let waiters = [waits("bob"), waits("carol")];
    eventually("both have an outage", || agent.figure("outages") == 2);
    for (waiter, left) in waiters.into_iter().zip([1, 0]) {
        waiter.close();
        eventually("one has gone", || agent.figure("locks") == left);
        assert_eq!(agent.figure("outages"), left);
    }
}

#[apply(on_one_server)]
fn a_wait_behind_a_holder_does_not_tell_of_an_outage_that_is_over(kind: Kind) {
    let (servers, agent) = agent(kind);
    let mut bob = agent.client();
    servers[0].pause();
    bob.send("DLOCK.ACQUIRE job bob 10 WAIT 0 KEEP 10");
    eventually("bob waits in an outage", || agent.figure("outages") == 1);
    bob.close();
    eventually("bob is gone", || agent.figure("locks") == 0);
    servers[0].resume();
    // Bob's request, and the release after it, may arrive first.
    servers[0].run("DLOCK.ACQUIRE job alice 500000 WAIT 0").int();
    let mut carol = agent.client();
    carol.send("DLOCK.ACQUIRE job carol 500000 WAIT 0");
    eventually("carol waits", || waiters(&servers) == 1);
    assert_eq!(agent.figure("outages"), 0);
}

/// The agent writes more than the system's pipe and its own threads can take.
#[test]
fn an_agent_with_an_unread_stderr_serves_on() {
    const KEYS: u64 = 700;
    many::lift_limit();
    let folder = scratch::folder();
    let socket = folder.path().join("agent.sock");
    let (_unread, stderr) = std::io::pipe().expect("the system has one");
    let mut command = program::command(&["127.0.0.1:1".to_owned()]);
    command.args(["agent", "--listen", &format!("unix:{}", socket.display())]);
    command.stdout(Stdio::null()).stderr(stderr);
    let mut agent = process::spawn(command).expect("it can be started");
    eventually("the agent listens", || UnixStream::connect(&socket).is_ok());
    let connect = || Client::connect_unix(&socket).expect("it listens");
    let waiters: Vec<Client> = (0..KEYS)
        .map(|n| {
            let mut client = connect();
            client.send(&format!("DLOCK.ACQUIRE {n:x>1000} alice 500000 WAIT 0"));
            client
        })
        .collect();
    let outages = format!("dlock_agent_outages:{KEYS}\r\n");
    eventually("each outage is known", || connect().run("INFO").text().contains(&outages));
    drop(waiters);
    agent.kill().and_then(|()| agent.wait()).expect("it was there");
}

#[test]
fn a_check_does_not_wait_for_a_node_that_hangs() {
    let quorum = Quorum::start(3);
    let agent = Agent::with(&quorum.urls(), &["--node-timeout", "1h"]);
    let fence = agent.run("DLOCK.ACQUIRE job alice 500000");
    quorum[0].network().swallow();
    assert_eq!(agent.run("DLOCK.CHECK job alice"), fence);
}
