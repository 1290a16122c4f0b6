//! Servers of a cluster that send a request on, and on.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use dlock_client::Client;
use harness::fake::{Answer, Fake};

use super::{
    all, assert_calm, assert_served, assert_told, grants, names, passes, program, program_within,
    waits,
};
use crate::coordinator::{LONG, run, until};

/// A server of a cluster with all slots at the first one, and its reply to a request for a lock.
fn server(first: u16, words: &[String], says: impl Fn() -> Answer) -> Answer {
    match names(words) {
        ("CLUSTER", "SLOTS") => Answer::raw(format!(
            "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:{first}\r\n"
        )),
        ("CLUSTER", "INFO") => Answer::raw("$23\r\ncluster_current_epoch:1\r\n"),
        ("DLOCK.ACQUIRE", _) => says(),
        _ => grants(words),
    }
}

/// Two servers: the reply of each to a request for a lock, given the ports of both.
fn two(says: impl Fn(u16, [u16; 2]) -> Answer + Clone + Send + Sync + 'static) -> [Fake; 2] {
    let both = [Fake::start(|_| Answer::Usual), Fake::start(|_| Answer::Usual)];
    let ports = [both[0].port(), both[1].port()];
    for fake in &both {
        let (own, says) = (fake.port(), says.clone());
        fake.says(move |words| server(ports[0], words, || says(own, ports)));
    }
    both
}

fn url(servers: &[Fake]) -> String {
    format!("redis+cluster://127.0.0.1:{},127.0.0.1:{}", servers[0].port(), servers[1].port())
}

fn make_sane(servers: &[Fake]) {
    let first = servers[0].port();
    for fake in servers {
        fake.says(move |words| server(first, words, || Answer::raw(":1000\r\n")));
    }
}

fn other(own: u16, ports: [u16; 2]) -> u16 {
    if own == ports[0] { ports[1] } else { ports[0] }
}

/// The servers' answers.
type Says = fn(u16, [u16; 2]) -> Answer;

// The slot of `job`.
const CASES: [(Says, &str); 9] = [
    (|own, _| Answer::error(&format!("MOVED 2906 127.0.0.1:{own}")), "too many redirects"),
    (
        |own, all| Answer::error(&format!("MOVED 2906 127.0.0.1:{}", other(own, all))),
        "too many redirects",
    ),
    (
        |own, all| Answer::error(&format!("ASK 2906 127.0.0.1:{}", other(own, all))),
        "too many redirects",
    ),
    (|own, _| Answer::error(&format!("MOVED 65535 127.0.0.1:{own}")), "too many redirects"),
    (|_, _| Answer::error("MOVED 2906 127.0.0.1:1"), "127.0.0.1:1: Connection refused"),
    (|_, _| Answer::error("MOVED 2906 127.0.0.1:70000"), "MOVED 2906 127.0.0.1:70000"),
    (|_, _| Answer::error("MOVED banana \x1b[2J"), "MOVED banana"),
    (|_, _| Answer::error("TRYAGAIN it moves"), "too many redirects"),
    (|_, _| Answer::error("READONLY a replica"), "too many redirects"),
];

#[test]
fn requests_that_are_sent_in_circles_are_given_up_for_a_while() {
    all(CASES, async |(says, words)| {
        let servers = two(says);
        // All answer.
        assert_calm_until_sane(&program_within(LONG, &url(&servers)), &servers, words).await;
    });
}

#[test]
fn a_request_that_is_sent_to_a_server_that_never_answers_says_to_which_one() {
    all(["MOVED", "ASK"], async |how| {
        let deaf = Fake::start(|_| Answer::Silence);
        let port = deaf.port();
        let words = format!("127.0.0.1:{port}: no answer within").leak();
        let servers = two(move |_, _| Answer::error(&format!("{how} 2906 127.0.0.1:{port}")));
        assert_calm_until_sane(&program(&url(&servers)), &servers, words).await;
    });
}

/// Asserts that a program gets the reason why it cannot have the lock, asks at a moderate rate, and has the
/// lock once the servers make sense.
async fn assert_calm_until_sane(client: &Client, servers: &[Fake], words: &'static str) {
    assert_told(client, words).await;
    let waiter = waits(client);
    assert_calm(servers, words).await;
    make_sane(servers);
    assert_served(waiter, client, &passes(|_| Answer::Usual, words)).await;
}

/// The server's answers to a waiter, after it has refused an attempt that does not wait.
const WAITING: [(Says, &str); 6] = [
    (|own, all| Answer::error(&format!("MOVED 2906 127.0.0.1:{}", other(own, all))), "MOVED"),
    (|own, all| Answer::error(&format!("ASK 2906 127.0.0.1:{}", other(own, all))), "ASK"),
    (|_, _| Answer::error("UNBLOCKED it is a replica"), "UNBLOCKED"),
    (|_, _| Answer::raw("_\r\n"), "no, at once"),
    (|_, _| Answer::raw(":0\r\n"), "a fence of nothing"),
    (|_, _| Answer::End, "the end"),
];

#[test]
fn a_waiter_that_is_sent_away_at_once_does_not_ask_all_the_time() {
    all(WAITING, async |(says, words)| {
        let servers = [Fake::start(|_| Answer::Usual), Fake::start(|_| Answer::Usual)];
        let ports = [servers[0].port(), servers[1].port()];
        for fake in &servers {
            let own = fake.port();
            fake.says(move |words| {
                let waits = words.iter().any(|word| word == "WAIT");
                let no = || Answer::raw("_\r\n");
                server(ports[0], words, || if waits { says(own, ports) } else { no() })
            });
        }
        let client = program(&url(&servers));
        let waiter = waits(&client);
        assert_calm(&servers, words).await;
        make_sane(&servers);
        if words == "a fence of nothing" {
            let refused = waiter.await.expect("it does not panic").expect_err("nobody granted it");
            return assert!(refused.to_string().contains("an unexpected reply"), "{refused}");
        }
        assert_served(waiter, &client, &passes(|_| Answer::Usual, words)).await;
    });
}

/// Each of the names is the same machine, and new to the client.
#[test]
fn connections_to_servers_that_were_named_once_are_not_kept() {
    let count = Arc::new(AtomicUsize::new(0));
    let servers = two(move |_, ports| {
        let zeros = "0".repeat(count.fetch_add(1, Ordering::Relaxed) % 200);
        Answer::error(&format!("MOVED 2906 127.0.0.{zeros}1:{}", ports[1]))
    });
    run(async {
        let client = program(&url(&servers));
        let waiter = waits(&client);
        until("it was sent on very often", || servers[1].connections() > 100).await;
        assert!(servers[1].open() < 40, "{} connections are open", servers[1].open());
        waiter.abort();
    });
}
