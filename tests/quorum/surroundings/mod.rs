//! Hostile or broken surroundings: Sentinels that lie, maps that are nonsense, redirects that lead nowhere,
//! hosts that accept and never answer.
//!
//! An attempt that does not wait soon gets an error that names the cause and the server. A waiter asks again
//! at a moderate rate. It gets no lock that was not granted, and gets the lock as soon as the surroundings
//! are sane. [`sentinels`] lie; clusters have [`maps`] and send [`redirects`].

mod maps;
mod redirects;
mod sentinels;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use dlock_client::{Client, Error, Guard};
use futures_util::future::{FutureExt, join_all};
use harness::fake::{Answer, Fake};
use harness::wait::assert_patient;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::coordinator::{LONG, ms, run, until};

/// The time for a server to answer, on a machine that may be busy. Only silent ones take as long.
const TIMEOUT: Duration = ms(8_000);
const TTL: Duration = LONG;
/// A client that sends this many requests a second does not spin. One that does sends thousands.
const CALM: f64 = 400.0;
const WATCHED: Duration = ms(1_500);

/// A fault, and its error.
struct Case {
    script: fn(&[String]) -> Answer,
    words: &'static str,
    /// True if no client waits for its end: it would not pass.
    is_final: bool,
}

const fn passes(script: fn(&[String]) -> Answer, words: &'static str) -> Case {
    Case { script, words, is_final: false }
}

const fn stays(script: fn(&[String]) -> Answer, words: &'static str) -> Case {
    Case { script, words, is_final: true }
}

/// Tries all of them at once: they wait most of the time.
fn all<C, const N: usize>(cases: [C; N], test: impl AsyncFn(C)) {
    // Boxed, for together they are too large for a thread's stack.
    run(join_all(cases.map(|case| test(case).boxed_local())));
}

fn program(url: &str) -> Client {
    program_within(TIMEOUT, url)
}

/// A program that gives each server this long to answer.
fn program_within(timeout: Duration, url: &str) -> Client {
    let builder = Client::builder().nodes([url]).node_timeout(timeout);
    builder.connect_later().expect("the address is good")
}

/// The first two words of a request: a command and its sub-command.
fn names(words: &[String]) -> (&str, &str) {
    let word = |at: usize| words.get(at).map_or("", String::as_str);
    (word(0), word(1))
}

/// A server that grants every lock.
fn grants(words: &[String]) -> Answer {
    match names(words) {
        ("DLOCK.NODE", _) => about("primary"),
        ("DLOCK.ACQUIRE", _) => Answer::raw(":1000\r\n"),
        ("DLOCK.EXTEND" | "DLOCK.RELEASE", _) => Answer::raw(":1\r\n"),
        _ => Answer::Usual,
    }
}

/// The answer of a server about itself.
fn about(role: &str) -> Answer {
    let text = |text: &str| format!("${}\r\n{text}\r\n", text.len());
    let fields = ["node-id", "fake", "role", role, "quarantine-ms"].map(text).concat();
    Answer::raw(format!("%3\r\n{fields}:0\r\n"))
}

/// Waits until an attempt that does not wait gets the error. A Sentinel that is late on a busy machine is
/// another cause.
async fn assert_told(client: &Client, words: &str) {
    let begun = Instant::now();
    loop {
        let taken = client.lock("job").ttl(TTL).try_acquire().await;
        let said = taken.expect_err("nobody granted it").to_string();
        assert!(said.chars().all(|c| c == '\n' || !c.is_control()), "{said:?}");
        assert!(said.len() < 3_000, "{said}");
        if said.contains(words) {
            break;
        }
        assert_patient(&format!("not '{words}', but: {said}"), begun);
    }
    // The same for a client that gives it a little time.
    let taken = client.lock("job").ttl(TTL).acquire_within(ms(300)).await;
    assert!(taken.is_err(), "{taken:?}");
}

fn waits(client: &Client) -> JoinHandle<Result<Guard, Error>> {
    tokio::spawn(client.lock("job").ttl(TTL).acquire())
}

/// Asserts that no server is asked all the time while a client waits.
async fn assert_calm(fakes: &[Fake], words: &str) {
    let count = || fakes.iter().map(|fake| fake.requests() + fake.connections()).sum::<usize>();
    let (before, begun) = (count(), Instant::now());
    sleep(WATCHED).await;
    let a_second = (count() - before) as f64 / begun.elapsed().as_secs_f64();
    assert!(a_second < CALM, "{words}: {a_second} a second");
}

/// Asserts that waiters are served now that all is well. No client waits for the end of a final fault.
async fn assert_served(waiter: JoinHandle<Result<Guard, Error>>, client: &Client, case: &Case) {
    let waited = if case.is_final {
        let refused = waiter.await.expect("it does not panic").expect_err("it is refused");
        assert!(refused.to_string().contains(case.words), "not '{}', but: {refused}", case.words);
        // Other clients try the same with the same server.
        client.lock("job").ttl(TTL).acquire().await
    } else {
        until("who waited is served", || waiter.is_finished()).await;
        waiter.await.expect("it does not panic")
    };
    let guard = waited.unwrap_or_else(|error| panic!("{}: {error}", case.words));
    assert!(guard.is_valid(), "{guard:?}");
    guard.release().await.expect("it is held");
}

/// The server may have carried out a request whose connection broke. A refusal of the next connection is no answer to
/// it.
#[test]
fn a_request_without_an_answer_is_released_though_the_next_connection_is_refused() {
    let broke = Arc::new(AtomicBool::new(false));
    let loads = Arc::clone(&broke);
    let server = Fake::start(move |words| match names(words) {
        ("DLOCK.ACQUIRE", _) => {
            loads.store(true, Ordering::Relaxed);
            Answer::End
        }
        ("HELLO", _) if loads.load(Ordering::Relaxed) => Answer::error("LOADING it loads its data"),
        _ => grants(words),
    });
    run(async {
        let client = program(&format!("redis://127.0.0.1:{}", server.port()));
        client.lock("job").ttl(TTL).try_acquire().await.expect_err("it loads its data");
        broke.store(false, Ordering::Relaxed);
        until("it is released", || server.asked("DLOCK.RELEASE") > 0).await;
    });
}
