//! Sentinels that lie, talk nonsense, or say nothing.

use std::pin::pin;
use std::time::Instant;

use futures_util::future::join_all;
use harness::fake::{Answer, Fake};
use harness::{Kind, Server};

use super::{
    Case, TTL, about, all, assert_calm, assert_served, assert_told, grants, names, passes, program,
    stays, waits,
};
use crate::coordinator::{run, take, wait_for};

/// The answers of a Sentinel to a request for the primary's address.
fn says(words: &[String], answer: &[u8]) -> Answer {
    match names(words) {
        ("SENTINEL", "GET-MASTER-ADDR-BY-NAME") => Answer::raw(answer),
        ("SENTINEL", "MASTER") => Answer::strings(&["config-epoch", "1"]),
        _ => Answer::Usual,
    }
}

fn at(words: &[String], port: u16) -> Answer {
    let port = port.to_string();
    says(words, format!("*2\r\n$9\r\n127.0.0.1\r\n${}\r\n{port}\r\n", port.len()).as_bytes())
}

fn url(sentinels: &[Fake]) -> String {
    let hosts = sentinels.iter().map(|one| format!("127.0.0.1:{}", one.port()));
    format!("redis+sentinel://{}/main", hosts.collect::<Vec<_>>().join(","))
}

/// Three Sentinels with the same answers.
fn three(script: impl Fn(&[String]) -> Answer + Clone + Send + Sync + 'static) -> Vec<Fake> {
    (0..3).map(|_| Fake::start(script.clone())).collect()
}

const CASES: [Case; 12] = [
    // Nothing listens at this port, which only the system itself may use.
    passes(|words| at(words, 1), "127.0.0.1:1: Connection refused"),
    stays(|words| says(words, b"_\r\n"), "it watches no primary 'main'"),
    stays(|words| says(words, b"*0\r\n"), "it gives no valid address of the primary 'main'"),
    stays(|words| says(words, b"*1\r\n$9\r\n127.0.0.1\r\n"), "no valid address"),
    stays(|words| says(words, b"*2\r\n$9\r\n127.0.0.1\r\n$5\r\n70000\r\n"), "70000"),
    stays(|words| says(words, b"*2\r\n$5\r\na\x1b[2J\r\n$4\r\n6379\r\n"), "no valid address"),
    stays(|words| says(words, b"-NOPERM \x1b[2J you may not\r\n"), "NOPERM"),
    passes(|words| says(words, b"-ERR max number of clients reached\r\n"), "max number of clients"),
    passes(|words| says(words, b"HTTP/1.1 400 Bad Request\r\n\r\n"), "does not speak the Redis"),
    passes(|words| says(words, b"$99999999999999\r\nabc"), "no answer"),
    passes(|words| says(words, b"*1000000000\r\n*1000000000\r\n"), "no answer"),
    passes(|_| Answer::End, "no majority of the Sentinels says where 'main' is"),
];

/// Asserts that a program gets the reason why it cannot have the lock, asks at a moderate rate, and has the
/// lock once the Sentinels name the primary.
async fn assert_calm_until_sane(sentinels: &[Fake], case: &Case, port: u16) {
    let client = program(&url(sentinels));
    assert_told(&client, case.words).await;
    let waiter = waits(&client);
    assert_calm(sentinels, case.words).await;
    sentinels.iter().for_each(|one| one.says(move |words| at(words, port)));
    assert_served(waiter, &client, case).await;
}

#[test]
fn sentinels_that_talk_nonsense_are_named_and_followed_once_they_are_sane() {
    let server = Server::start(Kind::Valkey91);
    let port = server.port();
    all(CASES, async |case| {
        let sentinels = three(case.script);
        assert_calm_until_sane(&sentinels, &case, port).await;
    });
}

#[test]
fn sentinels_that_never_answer_cost_no_more_than_their_time() {
    let server = Server::start(Kind::Redis82);
    let port = server.port();
    let case = passes(|_| Answer::Silence, "no answer within ");
    run(async {
        let sentinels = three(case.script);
        assert_calm_until_sane(&sentinels, &case, port).await;
        // Two of them that answer are enough.
        sentinels[2..].iter().for_each(|one| one.says(|_| Answer::Silence));
        let other = program(&url(&sentinels));
        let taken = other.lock("other").ttl(TTL).acquire().await;
        taken.expect("two say where it is").release().await.expect("it is held");
    });
}

#[test]
fn a_replica_of_which_sentinels_say_that_it_is_the_primary_is_not_asked_for_locks() {
    let server = Server::start(Kind::Redis82);
    let replica = Fake::start(|words| match names(words) {
        ("DLOCK.NODE", _) => about("replica"),
        _ => grants(words),
    });
    let (wrong, right) = (replica.port(), server.port());
    let case = passes(|_| Answer::Usual, "is a replica, though Sentinels call it the primary");
    run(async {
        let sentinels = three(move |words| at(words, wrong));
        let client = program(&url(&sentinels));
        assert_told(&client, case.words).await;
        let waiter = waits(&client);
        assert_calm(&sentinels, case.words).await;
        assert_eq!(replica.asked("DLOCK.ACQUIRE"), 0);
        sentinels.iter().for_each(|one| one.says(move |words| at(words, right)));
        assert_served(waiter, &client, &case).await;
    });
}

/// Each configuration is newer than the one before, and names another server: two that grant, and none.
#[test]
fn sentinels_that_change_their_answer_each_time_make_no_client_spin() {
    let servers = [Server::start(Kind::Redis82), Server::start(Kind::Valkey91)];
    let ports = [servers[0].port(), servers[1].port(), 1];
    let begun = Instant::now();
    let flips = move |words: &[String]| {
        let now = (begun.elapsed().as_millis() / 100) as usize;
        match names(words) {
            ("SENTINEL", "MASTER") => Answer::strings(&["config-epoch", &now.to_string()]),
            _ => at(words, ports[now % 3]),
        }
    };
    run(async {
        // Another client has the lock at every server, so that there is something to wait for.
        let mut held = Vec::new();
        for server in &servers {
            let url = format!("redis://127.0.0.1:{}", server.port());
            held.push(take(&program(&url), "job", TTL).await);
        }
        let sentinels = three(flips);
        let client = program(&url(&sentinels));
        let served = || async {
            let guard = wait_for(&client, "job", TTL).await;
            assert_eq!(servers[0].holders("job"), [guard.token().to_string()]);
            guard.release().await.expect("it is held");
        };
        let mut waiting = pin!(join_all((0..3).map(|_| served())));
        tokio::select! {
            _ = &mut waiting => panic!("another client has it"),
            () = assert_calm(&sentinels, "they change their answer") => {}
        }
        let port = servers[0].port();
        sentinels.iter().for_each(|one| {
            one.says(move |words| match names(words) {
                ("SENTINEL", "MASTER") => Answer::strings(&["config-epoch", "1000000"]),
                _ => at(words, port),
            });
        });
        // The other server's waiter is to find this one, and no lock is released there.
        held.remove(0).release().await.expect("it is held");
        waiting.await;
        held.remove(0).release().await.expect("it is held");
    });
}

/// The Sentinel announces a switch with each answer, and more than once: as a message, to every subscriber.
/// (Thousands would keep a client that spins so busy with reading that it would seem calm.)
#[test]
fn a_sentinel_that_tells_of_switches_all_the_time_is_not_asked_all_the_time() {
    let server = Server::start(Kind::Redis70);
    let port = server.port();
    let push = ">3\r\n$7\r\nmessage\r\n$14\r\n+switch-master\r\n$1\r\nx\r\n".repeat(10);
    let sentinels = three(move |words| match at(words, port) {
        Answer::Raw(bytes) => Answer::Raw([bytes.as_slice(), push.as_bytes()].concat()),
        other => other,
    });
    run(async {
        let client = program(&url(&sentinels));
        let guard = wait_for(&client, "job", TTL).await;
        assert_calm(&sentinels, "they tell of switches").await;
        guard.release().await.expect("it was never lost");
    });
}
