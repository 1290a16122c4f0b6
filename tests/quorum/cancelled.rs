//! A program that gives up half-way leaves nothing behind: no lease, no waiter, no connection, no
//! task.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use dlock_client::Client;
use harness::{Quorum, seed};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::runtime::Handle;
use tokio::task::JoinSet;

use crate::coordinator::{
    LONG, assert_holds, healthy_program, ms, program, run, take, take_everywhere, until,
};

const ACQUISITIONS: usize = 800;
const AT_ONCE: usize = 20;
const KEYS: usize = 8;
/// A lease that ends in the test.
const TTL: Duration = ms(8_000);

/// More than a program needs for one node: its ordinary connection, and those of requests that waited.
const CONNECTIONS: usize = AT_ONCE + 2;

#[test]
fn acquisitions_that_are_given_up_at_any_moment_leave_nothing() {
    let quorum = Quorum::start(3);
    let mut rng = seed::rng();
    run(async {
        let tasks = || Handle::current().metrics().num_alive_tasks();
        let tasks_before = tasks();
        let connections_before: Vec<usize> = connections(&quorum);
        let client = healthy_program(&quorum).await;
        let mut hasty = JoinSet::new();
        for _ in 0..AT_ONCE {
            let (client, rng) = (client.clone(), StdRng::seed_from_u64(rng.random()));
            hasty.spawn(give_up_often(client, rng));
        }
        let taken: usize = hasty.join_all().await.into_iter().sum();
        assert!((1..ACQUISITIONS).contains(&taken), "some must have been given up, and some not");
        quorum.until_empty();

        for (now, before) in connections(&quorum).into_iter().zip(&connections_before) {
            assert!(now <= before + CONNECTIONS, "{now} connections, {before} before");
        }
        let guard = take(&client, "key0", LONG).await;
        assert_holds(&quorum, &guard);
        guard.release().await.expect("it is held");
        client.close().await;
        drop(client);
        until("all connections are closed", || {
            connections(&quorum).iter().zip(&connections_before).all(|(now, before)| now <= before)
        })
        .await;
        until("all tasks have ended", || tasks() == tasks_before).await;
    });
}

#[test]
fn a_waiter_that_is_dropped_leaves_the_queue_at_once() {
    let quorum = Quorum::start(3);
    run(async {
        let (alice, bob) = (healthy_program(&quorum).await, healthy_program(&quorum).await);
        let guard = take_everywhere(&quorum, &alice, "job", LONG).await;
        for _ in 0..5 {
            let bobs = bob.clone();
            let waiting = tokio::spawn(async move { bobs.lock("job").acquire().await });
            until("bob waits", || quorum[0].node("waiters").int() == 1).await;
            waiting.abort();
            until("bob waits no more", || quorum[0].node("waiters").int() == 0).await;
        }
        assert_holds(&quorum, &guard);
        guard.release().await.expect("it is held");
        quorum.until_released();
    });
}

#[test]
fn futures_that_are_dropped_with_their_program_leave_no_more_than_a_lease() {
    let quorum = Quorum::start(3);
    // The program ends, with everything in it, while it holds and while it waits.
    let alice = tokio::runtime::Runtime::new().expect("threads can be made");
    let guard = alice.block_on(async {
        let client = program(&quorum).await;
        let guard = client.lock("job").ttl(TTL).acquire().await.expect("it is free");
        tokio::spawn(async move { client.lock("job").ttl(TTL).acquire().await });
        guard
    });
    harness::eventually("it waits", || quorum[0].node("waiters").int() == 1);
    alice.shutdown_background();
    // The lease, and the turn of a waiter that is away.
    quorum.until_empty();
    assert!(!guard.is_valid());
    // Without a runtime it cannot be released: no panic follows.
    drop(guard);
}

/// Takes locks, and gives up at random. Returns how often it did not.
async fn give_up_often(client: Client, mut rng: StdRng) -> usize {
    let mut taken = 0;
    for _ in 0..ACQUISITIONS / AT_ONCE {
        let key = format!("key{}", rng.random_range(0..KEYS));
        let lock = client.lock(key).ttl(LONG);
        let waits: bool = rng.random();
        let acquiring =
            async { if waits { lock.acquire().await } else { lock.try_acquire().await } };
        let polls = if rng.random() { rng.random_range(0..12) } else { u32::MAX };
        match (Impatient { polls, future: Box::pin(acquiring) }).await {
            Some(Ok(guard)) => {
                assert!(guard.is_valid());
                taken += 1;
                if rng.random() {
                    guard.release().await.expect("it is held");
                }
            }
            Some(Err(dlock_client::Error::Held { .. })) | None => {}
            Some(Err(other)) => panic!("{other}"),
        }
    }
    taken
}

/// A future that is given up after this many polls.
struct Impatient<F> {
    polls: u32,
    future: Pin<Box<F>>,
}

impl<F: Future> Future for Impatient<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if self.polls == 0 {
            return Poll::Ready(None);
        }
        self.polls -= 1;
        self.future.as_mut().poll(context).map(Some)
    }
}

/// The number of clients of each node.
fn connections(quorum: &Quorum) -> Vec<usize> {
    quorum.iter().map(|node| node.run("CLIENT LIST").text().lines().count()).collect()
}
