//! Programs that take locks with the library, in the process of the test.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use dlock_client::{Client, Error, Guard};
use tokio::runtime::Builder;
use tokio::time::{sleep, timeout};

use crate::stuck;
use crate::wait::PATIENCE;

/// Runs the asynchronous part of a test. The test may call functions that block: the library has threads of
/// its own.
pub fn run<T>(test: impl Future<Output = T>) -> T {
    run_for(Duration::ZERO, test)
}

/// The same for a part that usually takes this long.
pub fn run_for<T>(usual: Duration, test: impl Future<Output = T>) -> T {
    stuck::listen();
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name(stuck::test())
        .enable_all()
        .build();
    let runtime = runtime.expect("threads can be made");
    // More than one wait may take, so that the failing one is named.
    let most = usual + 2 * PATIENCE;
    let ended = runtime.block_on(async {
        let mut test = pin!(test);
        // The test keeps all that it has until its state is printed.
        timeout(most, &mut test).await.inspect_err(|_| stuck::tell())
    });
    runtime.shutdown_background();
    stuck::forget();
    ended.unwrap_or_else(|_| panic!("the test has not ended after {most:?}"))
}

/// Connects a program that gives each node this long to answer.
pub async fn connect(urls: &[String], node_timeout: Duration) -> Client {
    let connected = Client::builder().nodes(urls).node_timeout(node_timeout).connect().await;
    connected.unwrap_or_else(|error| panic!("not connected: {error}"))
}

/// The same for nodes with little time to answer: on a busy machine it may take more than one attempt.
pub async fn connect_hasty(urls: impl Fn() -> Vec<String>, node_timeout: Duration) -> Client {
    loop {
        let connected = Client::builder().nodes(urls()).node_timeout(node_timeout).connect().await;
        match connected {
            Ok(client) => return client,
            Err(_) => sleep(node_timeout).await,
        }
    }
}

/// Takes a lock that must be free.
pub async fn take(client: &Client, key: &str, ttl: Duration) -> Guard {
    let taken = client.lock(key).ttl(ttl).try_acquire().await;
    taken.unwrap_or_else(|error| panic!("not taken: {error}"))
}

/// Waits for a lock without limit.
pub async fn wait_for(client: &Client, key: &str, ttl: Duration) -> Guard {
    let taken = client.lock(key).ttl(ttl).acquire().await;
    taken.unwrap_or_else(|error| panic!("not taken: {error}"))
}

/// Asserts that a lock was refused because it is held.
#[track_caller]
pub fn assert_held<T>(answer: Result<T, Error>) {
    match answer {
        Err(Error::Held { .. }) => {}
        Err(other) => panic!("expected that it is held, got: {other}"),
        Ok(_) => panic!("expected that it is held, and it was granted"),
    }
}

/// Milliseconds.
pub const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}
