//! A node that is a primary behind Sentinels: locks go on when another server is promoted.

use std::sync::{Arc, Mutex};

use dlock_client::{Client, Error, Guard, Notice};
use harness::sentinel::{NAME, Sentinel};
use harness::watched::Watched;
use harness::{Kind, Server, Way, apply, on_two_servers};

use crate::coordinator::{
    LONG, NODE_TIMEOUT, connect, ms, run, until, until_extended_at, wait_for,
};

/// Starts a primary, replicas and Sentinels. These take no server for dead that a busy machine lets stand
/// still, before the test waits for a promotion.
fn start(kind: Kind, replicas: usize) -> Watched {
    let node = Watched::start(kind, replicas);
    node.sentinels.iter().for_each(|one| one.take_for_dead_after(20_000));
    node
}

/// Asserts that it was held all the time, and gives it back.
async fn assert_held_until_now(guard: Guard) {
    assert!(guard.is_valid(), "{guard:?}");
    guard.release().await.expect("it was never lost");
}

#[apply(on_two_servers)]
fn a_guard_goes_on_after_a_fail_over_and_waiters_are_served_in_order(kind: Kind) {
    const WAITERS: usize = 10;
    let mut node = start(kind, 1);
    // tests/hazards covers quarantine after a promotion; this is about clients that follow.
    node.servers[1].run("CONFIG SET dlock.quarantine off");
    run(async {
        let client = connect(&[node.url()]).await;
        let guard = wait_for(&client, "job", LONG).await;
        let waiting: Vec<_> = (0..WAITERS)
            .map(|_| {
                let client = client.clone();
                tokio::spawn(async move {
                    let guard = wait_for(&client, "job", LONG).await;
                    let token = guard.token().to_string();
                    (fence_of(guard).await, token)
                })
            })
            .collect();
        node.servers[0].until_blocked(WAITERS as i64);
        node.until_followed(0);
        node.servers[0].kill();
        let now = node.promoted(0, &[0, 1, 2]);
        until_extended_at(&node.servers[now], &guard).await;
        node.servers[now].until_blocked(WAITERS as i64);
        let queue = node.servers[now].waiters("job");
        let first = fence_of(guard).await;
        let mut served = Vec::new();
        for waiter in waiting {
            served.push(waiter.await.expect("it does not panic"));
        }
        served.sort_unstable();
        assert!(first < served[0].0, "{first}, {served:?}");
        let tokens: Vec<String> = served.iter().map(|(_, token)| token.clone()).collect();
        assert_eq!(tokens, queue, "in the order of their fences, and in that of the queue");
    });
}

async fn fence_of(guard: Guard) -> u64 {
    let fence = guard.fence();
    guard.release().await.expect("it is held");
    fence
}

#[test]
fn a_primary_that_freezes_is_left_and_followed_no_more_when_it_wakes_up() {
    let node = start(Kind::Redis82, 2);
    run(async {
        let client = connect(&[node.url()]).await;
        let guard = wait_for(&client, "job", LONG).await;
        node.until_followed(0);
        node.servers[0].pause();
        let now = node.promoted(0, &[0, 1, 2]);
        until_extended_at(&node.servers[now], &guard).await;
        node.servers[0].resume();
        let again = connect(&[node.url()]).await;
        let taken = again.lock("job").try_acquire().await;
        assert!(taken.is_err(), "the former primary must not be asked: {taken:?}");
        assert_held_until_now(guard).await;
    });
}

#[test]
fn a_planned_switch_there_and_back_loses_no_guard_and_tells_listeners() {
    let node = start(Kind::Valkey91, 1);
    let told: Arc<Mutex<Vec<Notice>>> = Arc::default();
    run(async {
        let hears = Arc::clone(&told);
        let listener = move |notice: &Notice| hears.lock().unwrap().push(notice.clone());
        let builder = Client::builder().nodes([node.url()]).node_timeout(NODE_TIMEOUT);
        let client = builder.notify(listener).connect().await.expect("it is all there");
        let guard = wait_for(&client, "job", LONG).await;
        node.until_followed(0);
        assert_eq!(node.sentinels[0].run(&format!("SENTINEL FAILOVER {NAME}")).text(), "OK");
        assert_eq!(node.promoted(0, &[0, 1, 2]), 1);
        until_extended_at(&node.servers[1], &guard).await;
        until("the former primary is a replica that has everything", || {
            node.sentinels.iter().all(|one| one.knows(1, 2) == Some(true))
        })
        .await;
        node.until_followed(1);
        assert_eq!(node.sentinels[1].run(&format!("SENTINEL FAILOVER {NAME}")).text(), "OK");
        assert_eq!(node.promoted(1, &[0, 1, 2]), 0);
        until_extended_at(&node.servers[0], &guard).await;
        assert_held_until_now(guard).await;
    });
    let told = told.lock().unwrap();
    let promoted = |port: u16| {
        let at = format!("127.0.0.1:{port}");
        told.iter().any(|notice| matches!(notice, Notice::Promoted { server, .. } if *server == at))
    };
    assert!(node.servers.iter().all(|server| promoted(server.port())), "{told:?}");
    assert!(!told.iter().any(|notice| matches!(notice, Notice::Stranger { .. })), "{told:?}");
}

#[test]
fn a_lease_that_the_promoted_replica_never_heard_of_is_lost_and_the_guard_says_so() {
    let (mut node, network) = Watched::start_over_a_network(Kind::Redis82);
    run(async {
        let client = connect(&[node.url()]).await;
        network.keep_back(Way::Down);
        let guard = wait_for(&client, "job", LONG).await;
        until("it is on its way to the replica", || network.has_kept_back(Way::Down)).await;
        node.servers[0].kill();
        network.refuse();
        assert_eq!(node.promoted(0, &[0, 1, 2]), 1);
        guard.extend(LONG).await.expect_err("the new primary has not heard of it");
        let loss = guard.lost().await;
        assert_eq!(loss.why.name(), "ended", "{loss}");
    });
}

#[test]
fn a_majority_of_the_sentinels_is_enough_and_a_connected_client_needs_none() {
    let mut node = start(Kind::Valkey81, 1);
    run(async {
        let url = [node.url()];
        let before = connect(&url).await;
        node.sentinels[0].pause();
        fence_of(wait_for(&connect(&url).await, "job", LONG).await).await;
        node.sentinels[1..].iter_mut().for_each(Sentinel::kill);
        fence_of(wait_for(&before, "job", LONG).await).await;
        node.sentinels[0].resume();
        let refused = Client::builder().nodes(&url).node_timeout(ms(500)).connect().await;
        let said = refused.expect_err("one of three is no majority").to_string();
        assert!(said.contains("no majority of the Sentinels says where 'watched' is"), "{said}");
        node.sentinels[1].start_again();
        fence_of(wait_for(&connect(&url).await, "job", LONG).await).await;
    });
}

/// The former primary serves again, and the only Sentinel that answers calls it the primary.
#[test]
fn a_stale_sentinel_alone_leads_no_client_back() {
    let mut node = start(Kind::Redis82, 1);
    run(async {
        let client = connect(&[node.url()]).await;
        node.until_followed(0);
        node.servers[1].run("CONFIG SET dlock.quarantine off");
        node.sentinels[2].kill();
        node.servers[0].kill();
        assert_eq!(node.promoted(0, &[0, 1]), 1);
        // Otherwise the stale Sentinel makes it a replica of the former primary, after 8 s.
        node.servers[1].run("ACL SETUSER default -slaveof -replicaof");
        fence_of(wait_for(&client, "job", LONG).await).await;
        node.sentinels[..2].iter_mut().for_each(Sentinel::kill);
        node.servers[0].start_again();
        node.servers[0].run("CONFIG SET dlock.quarantine off");
        node.sentinels[2].start_again();
        assert_eq!(node.sentinels[2].primary(), node.servers[0].port());
        // One client has to connect again, the other one is new.
        node.servers[1].run("CLIENT KILL TYPE normal");
        let taken = client.lock("job").try_acquire().await;
        assert!(taken.is_err(), "{taken:?}");
        let url = [node.url()];
        let refused = Client::builder().nodes(&url).node_timeout(ms(500)).connect().await;
        let said = refused.expect_err("one of three is no majority").to_string();
        assert!(said.contains("no majority of the Sentinels says where 'watched' is"), "{said}");
        node.sentinels[1].start_again();
        until("they agree", || node.sentinels[2].primary() == node.servers[1].port()).await;
        for client in [client, connect(&url).await] {
            let guard = wait_for(&client, "job", LONG).await;
            assert_eq!(node.servers[1].holders("job"), [guard.token().to_string()]);
            fence_of(guard).await;
        }
    });
}

#[test]
fn a_primary_behind_sentinels_may_be_one_node_of_several() {
    let mut node = start(Kind::Redis82, 1);
    let others = [Server::start(Kind::Valkey81), Server::start(Kind::Valkey91)];
    run(async {
        let urls = others.iter().map(|server| format!("redis://127.0.0.1:{}", server.port()));
        let urls: Vec<String> = [node.url()].into_iter().chain(urls).collect();
        let client = connect(&urls).await;
        let guard = wait_for(&client, "job", LONG).await;
        node.until_followed(0);
        node.servers[0].kill();
        let now = node.promoted(0, &[0, 1, 2]);
        until_extended_at(&node.servers[now], &guard).await;
        assert_held_until_now(guard).await;
    });
}

#[test]
fn confused_servers_and_sentinels_and_two_addresses_of_one_node_are_errors() {
    let node = start(Kind::Redis82, 0);
    let (server, sentinel) = (node.servers[0].port(), node.sentinels[0].port());
    run(async {
        for (url, words) in [
            (format!("redis+sentinel://127.0.0.1:{server}/{NAME}"), "it is no Sentinel"),
            (
                format!("redis://127.0.0.1:{sentinel}"),
                "for a Sentinel write redis+sentinel://host:26379/NAME",
            ),
            (
                format!("redis+sentinel://127.0.0.1:{sentinel}/other"),
                "it watches no primary 'other'",
            ),
            (format!("redis+cluster://127.0.0.1:{server}"), "no member of a Redis Cluster"),
        ] {
            let client = Client::builder().nodes([&url]).node_timeout(NODE_TIMEOUT);
            let refused = client.connect().await.expect_err("it is something else").to_string();
            assert!(refused.contains(words), "{url}: {refused}");
        }
        // Both have to answer: a client that has a majority does not wait for long for the third.
        let (direct, nobody) = (format!("redis://127.0.0.1:{server}"), "redis://127.0.0.1:1");
        let url = format!("{},{direct},{nobody}", node.url());
        let builder = Client::builder().nodes([url]).node_timeout(NODE_TIMEOUT);
        let refused = builder.connect().await.expect_err("they are the same node");
        let Error::Duplicate { first, second, .. } = &refused else { panic!("{refused}") };
        assert_eq!([first, second], [&direct, &node.url()]);
    });
}
