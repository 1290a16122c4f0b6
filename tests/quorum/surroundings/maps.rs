//! Clusters with a nonsensical map of the slots.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use dlock_client::Error;
use futures_util::future::join_all;
use harness::fake::{Answer, Fake};

use super::{
    Case, TTL, about, all, assert_calm, assert_served, assert_told, grants, names, passes, program,
    stays, waits,
};
use crate::coordinator::{ms, run};

/// A server of a cluster with this map.
fn with(words: &[String], map: &str) -> Answer {
    match names(words) {
        ("CLUSTER", "SLOTS") => Answer::raw(map),
        ("CLUSTER", "INFO") => Answer::raw("$23\r\ncluster_current_epoch:1\r\n"),
        _ => grants(words),
    }
}

/// A range of slots and its server: the asked one, if no name is given.
fn range(first: i64, last: i64, name: &str, port: i64) -> String {
    format!("*3\r\n:{first}\r\n:{last}\r\n*2\r\n${}\r\n{name}\r\n:{port}\r\n", name.len())
}

fn one(range: &str) -> String {
    format!("*1\r\n{range}")
}

fn url(servers: &[Fake]) -> String {
    let hosts = servers.iter().map(|one| format!("127.0.0.1:{}", one.port()));
    format!("redis+cluster://{}", hosts.collect::<Vec<_>>().join(","))
}

/// All slots belong to the first server.
fn make_sane(servers: &[Fake]) {
    let port = i64::from(servers[0].port());
    for server in servers {
        server.says(move |words| with(words, &one(&range(0, 16_383, "127.0.0.1", port))));
    }
}

const NONSENSE: &str = "its map of the slots cannot be understood";

const CASES: [Case; 13] = [
    passes(|words| with(words, "*0\r\n"), "CLUSTERDOWN no server of the cluster has slot"),
    passes(|words| with(words, &one(&range(0, 9, "127.0.0.1", 1))), "CLUSTERDOWN"),
    passes(|words| with(words, &one(&range(0, 16_383, "127.0.0.1", 1))), "127.0.0.1:1: "),
    passes(|words| with(words, "-CLUSTERDOWN Hash slot not served\r\n"), "CLUSTERDOWN"),
    passes(|words| with(words, "-LOADING it reads its data\r\n"), "LOADING"),
    passes(|words| with(words, "$99999999999999\r\nabc"), "no answer within"),
    passes(|words| with(words, "*1000000000\r\n*1000000000\r\n"), "no answer within"),
    passes(|words| with(words, "SSH-2.0-OpenSSH_9.6\r\n"), "does not speak the Redis protocol"),
    passes(|_| Answer::End, "127.0.0.1:"),
    stays(|words| with(words, "+OK\r\n"), NONSENSE),
    stays(|words| with(words, &one(&range(0, 16_383, "127.0.0.1", 70_000))), "70000"),
    stays(|words| with(words, &one(&range(0, 16_383, "a\x1b[2Jb", 7000))), NONSENSE),
    passes(|words| with(words, &"*1\r\n".repeat(999)), "does not speak the Redis protocol"),
];

#[test]
fn maps_that_are_nonsense_are_said_to_be_and_read_anew() {
    all(CASES, async |case| {
        let servers = [Fake::start(case.script), Fake::start(case.script)];
        let client = program(&url(&servers));
        assert_told(&client, case.words).await;
        let waiter = waits(&client);
        assert_calm(&servers, case.words).await;
        assert_eq!(servers[0].asked("DLOCK.ACQUIRE") + servers[1].asked("DLOCK.ACQUIRE"), 0);
        make_sane(&servers);
        assert_served(waiter, &client, &case).await;
    });
}

#[test]
fn a_server_that_never_answers_is_named_and_does_not_keep_the_others_from_telling_the_map() {
    let deaf = Fake::start(|_| Answer::Silence);
    let port = i64::from(deaf.port());
    let words = format!("127.0.0.1:{port}: no answer within");
    let case = passes(|_| Answer::Silence, words.leak());
    run(async {
        let to_the_deaf = one(&range(0, 16_383, "127.0.0.1", port));
        let mut servers = vec![Fake::start(move |words| with(words, &to_the_deaf)), deaf];
        let client = program(&url(&servers));
        assert_told(&client, case.words).await;
        let waiter = waits(&client);
        assert_calm(&servers, case.words).await;
        make_sane(&servers[..1]);
        assert_served(waiter, &client, &case).await;
        // A new client has to read the map, and does not wait for the deaf server.
        let guard = program(&url(&servers)).lock("other").ttl(TTL).try_acquire().await;
        guard.expect("one tells the map").release().await.expect("it is held");
        servers.truncate(1);
    });
}

/// The map may still name a former primary, which has another password by now.
#[test]
fn a_server_that_lets_no_client_in_is_waited_for_while_others_tell_the_map() {
    let shut = Fake::start(|_| Answer::error("NOAUTH Authentication required."));
    let port = i64::from(shut.port());
    let case = passes(|_| Answer::Silence, format!("127.0.0.1:{port}: NOAUTH").leak());
    run(async {
        let to_the_shut = one(&range(0, 16_383, "127.0.0.1", port));
        let servers = [Fake::start(move |words| with(words, &to_the_shut))];
        let client = program(&url(&servers));
        assert_told(&client, case.words).await;
        let waiter = waits(&client);
        assert_calm(&servers, case.words).await;
        assert_eq!(shut.asked("DLOCK.ACQUIRE"), 0);
        make_sane(&servers);
        assert_served(waiter, &client, &case).await;
        // If all refuse, no client waits.
        servers[0].says(|_| Answer::error("NOAUTH Authentication required."));
        let refused = program(&url(&servers)).lock("job").ttl(TTL).acquire().await;
        assert!(matches!(refused, Err(Error::Refused { .. })), "{refused:?}");
    });
}

/// Each names another server in turn: one that grants nothing because it is a replica, and one that does not
/// exist.
#[test]
fn a_map_that_changes_with_each_look_makes_no_client_spin() {
    let replica = Fake::start(|words| match names(words) {
        ("DLOCK.NODE", _) => about("replica"),
        _ => grants(words),
    });
    let ports = [i64::from(replica.port()), 1];
    let count = Arc::new(AtomicUsize::new(0));
    let changes = move |words: &[String]| {
        let port = ports[count.fetch_add(1, Ordering::Relaxed) / 3 % 2];
        with(words, &one(&range(0, 16_383, "127.0.0.1", port)))
    };
    let case = passes(|_| Answer::Usual, "127.0.0.1:");
    run(async {
        let servers = [Fake::start(changes.clone()), Fake::start(changes)];
        let client = program(&url(&servers));
        assert_told(&client, case.words).await;
        let waiter = waits(&client);
        assert_calm(&servers, "the map changes").await;
        assert_eq!(replica.asked("DLOCK.ACQUIRE"), 0);
        make_sane(&servers);
        assert_served(waiter, &client, &case).await;
    });
}

/// Each server takes a while to refuse: one after the other, clients would wait for all before them.
#[test]
fn many_clients_that_want_a_missing_map_are_told_so_together() {
    let slow = |words: &[String]| {
        if names(words) == ("CLUSTER", "SLOTS") {
            thread::sleep(ms(200));
        }
        with(words, "+OK\r\n")
    };
    let servers = [Fake::start(slow), Fake::start(slow)];
    run(async {
        let client = program(&url(&servers));
        let many = (0..50).map(|_| {
            let client = client.clone();
            tokio::spawn(async move { client.lock("job").try_acquire().await.map(drop) })
        });
        for one in join_all(many).await {
            let said = one.expect("it does not panic").expect_err("nobody granted it").to_string();
            assert!(said.contains(NONSENSE), "{said}");
        }
        assert!(servers[0].connections() < 10, "{}", servers[0].connections());
    });
}
