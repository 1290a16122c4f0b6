//! A node that is a Redis Cluster: each lock is at the server that has its key now.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use dlock_client::{Client, Error, Guard};
use harness::cluster::slots_of;
use harness::{Cluster, Kind, Proxy, Server, Way, apply, eventually, on_two_servers};
use tokio::time::sleep;

use crate::coordinator::{
    LONG, NODE_TIMEOUT, connect, ms, run, until, until_extended_at, wait_for,
};

async fn fence_of(guard: Guard) -> u64 {
    let fence = guard.fence();
    assert!(guard.is_valid());
    guard.release().await.expect("it was never lost");
    fence
}

/// Lets this many clients wait for a lock, and release it at once. Each task returns its fence.
fn waiters(client: &Client, key: &str, count: usize) -> Vec<tokio::task::JoinHandle<u64>> {
    let one = || {
        let (client, key) = (client.clone(), key.to_owned());
        tokio::spawn(async move { fence_of(wait_for(&client, &key, LONG).await).await })
    };
    (0..count).map(|_| one()).collect()
}

async fn assert_served_after(fence: u64, waiters: Vec<tokio::task::JoinHandle<u64>>) {
    let mut fences = vec![fence];
    for waiter in waiters {
        fences.push(waiter.await.expect("it does not panic"));
    }
    assert!(fences[1..].iter().all(|later| *later > fence), "{fences:?}");
    let all = fences.len();
    fences.sort_unstable();
    fences.dedup();
    assert_eq!(fences.len(), all, "{fences:?}");
}

#[test]
fn each_lock_is_at_the_server_that_has_its_key() {
    let cluster = Cluster::start(Kind::Redis70);
    run(async {
        // One server is enough to find the others.
        let client = connect(&[cluster.url(&[1])]).await;
        for place in 0..3 {
            let key = cluster.key(place, "job");
            let guard = wait_for(&client, &key, LONG).await;
            assert_eq!(cluster.nodes[place].holders(&key), [guard.token().to_string()]);
            let waiting = waiters(&client, &key, 2);
            cluster.nodes[place].until_blocked(2);
            assert_served_after(fence_of(guard).await, waiting).await;
            assert!(cluster.nodes[place].holders(&key).is_empty());
        }

        let direct = |place: usize| format!("redis://127.0.0.1:{}", cluster.nodes[place].port());
        for other in [cluster.url(&[1, 2]), direct(0)] {
            let urls = [cluster.url(&[0]), other, "redis://127.0.0.1:1".to_owned()];
            let builder = Client::builder().nodes(&urls).node_timeout(NODE_TIMEOUT);
            let refused = builder.connect().await.expect_err("they are the same node");
            let Error::Duplicate { first, second, .. } = &refused else { panic!("{refused}") };
            assert_eq!([first, second], [&urls[0], &urls[1]]);
        }
        let client = connect(&[direct(0)]).await;
        let taken = client.lock(cluster.key(1, "job")).try_acquire().await;
        let refused = taken.expect_err("the key is another server's").to_string();
        assert!(refused.contains("write redis+cluster://"), "{refused}");
    });
}

/// A program takes locks all the time while their slots move to another server and back: no error, and no
/// lost guard.
#[test]
fn a_reshard_is_not_noticed_by_programs_that_work_with_the_locks() {
    let cluster = Cluster::start(Kind::Redis82);
    let keys: Vec<String> = (0..3).map(|at| cluster.key(0, &format!("job{at}"))).collect();
    work_during(&cluster, &keys, |from, to| {
        keys.iter().for_each(|key| cluster.move_slot(cluster.slot(key), from, to));
    });
}

#[test]
fn a_reshard_of_whole_slots_is_not_noticed_by_programs_that_work_with_the_locks() {
    const SLOTS: usize = 1_500;
    let cluster = Cluster::start(Kind::Valkey91);
    let names = (0..).map(|at| format!("job{at}"));
    let keys: Vec<String> = names.filter(|key| cluster.slot(key) < SLOTS).take(3).collect();
    work_during(&cluster, &keys, |from, to| cluster.migrate_to_the_end(0..=SLOTS - 1, from, to));
}

/// Two programs contend for each lock all the time, while slots go from server to server.
fn work_during(cluster: &Cluster, keys: &[String], reshard: impl Fn(usize, usize)) {
    let over = Arc::new(AtomicBool::new(false));
    run(async {
        let client = connect(&[cluster.url(&[0, 1, 2])]).await;
        let work = keys.iter().chain(keys).map(|key| {
            let (client, key, over) = (client.clone(), key.clone(), Arc::clone(&over));
            tokio::spawn(async move {
                let (mut rounds, mut last) = (0, 0);
                while !over.load(Ordering::Relaxed) {
                    let fence = fence_of(wait_for(&client, &key, LONG).await).await;
                    sleep(ms(2)).await;
                    assert!(fence > last, "{key}: {fence} after {last}");
                    (rounds, last) = (rounds + 1, fence);
                }
                rounds
            })
        });
        let work: Vec<_> = work.collect();
        [(0, 1), (1, 2), (2, 0)].into_iter().for_each(|(from, to)| reshard(from, to));
        over.store(true, Ordering::Relaxed);
        for one in work {
            assert!(one.await.expect("no error, and no guard that is lost") > 0);
        }
    });
}

#[apply(on_two_servers)]
fn guards_and_waiters_go_to_a_server_that_joins_and_away_from_one_that_leaves(kind: Kind) {
    let mut cluster = Cluster::start(kind);
    run(async {
        let client = connect(&[cluster.url(&[0])]).await;
        let key = cluster.key(1, "job");
        let slot = cluster.slot(&key);
        let guard = wait_for(&client, &key, LONG).await;
        let waiting = waiters(&client, &key, 3);
        cluster.nodes[1].until_blocked(3);
        let new = cluster.join();
        cluster.move_slot(slot, 1, new);
        cluster.nodes[new].until_blocked(3);
        until_extended_at(&cluster.nodes[new], &guard).await;
        // A client that comes now asks there, too.
        let late = waiters(&client, &key, 1);
        cluster.nodes[new].until_blocked(4);
        cluster.move_slot(slot, new, 2);
        cluster.leave(new);
        cluster.nodes[2].until_blocked(4);
        until_extended_at(&cluster.nodes[2], &guard).await;
        assert_served_after(fence_of(guard).await, waiting.into_iter().chain(late).collect()).await;
    });
}

#[test]
fn the_server_of_the_address_may_leave() {
    let mut cluster = Cluster::start(Kind::Valkey91);
    run(async {
        let client = connect(&[cluster.url(&[0])]).await;
        let key = cluster.key(0, "job");
        let guard = wait_for(&client, &key, LONG).await;
        let waiting = waiters(&client, &key, 3);
        cluster.nodes[0].until_blocked(3);
        let last = slots_of(0).last().expect("it has some");
        cluster.migrate_to_the_end(0..=last, 0, 1);
        let other = cluster.key(2, "job");
        cluster.leave(0);
        cluster.nodes[0].until_blocked(3);
        until_extended_at(&cluster.nodes[0], &guard).await;
        assert_served_after(fence_of(guard).await, waiting).await;
        fence_of(wait_for(&client, &other, LONG).await).await;
    });
}

#[test]
fn a_free_lock_of_a_slot_in_between_is_taken_where_the_slot_goes() {
    let cluster = Cluster::start(Kind::Redis82);
    run(async {
        let client = connect(&[cluster.url(&[0])]).await;
        let tag = cluster.key(0, "tag");
        let (stays, free) = (format!("{{{tag}}}:stays"), format!("{{{tag}}}:free"));
        let slot = cluster.slot(&free);
        let held = wait_for(&client, &stays, LONG).await;
        cluster.open(slot, 0, 1);
        let guard = wait_for(&client, &free, LONG).await;
        let waiting = waiters(&client, &free, 2);
        cluster.nodes[1].until_blocked(2);
        cluster.move_keys(slot, 0, 1);
        cluster.close(slot, 0, 1);
        for guard in [&held, &guard] {
            until_extended_at(&cluster.nodes[1], guard).await;
        }
        assert_served_after(fence_of(guard).await, waiting).await;
        fence_of(held).await;
    });
}

#[apply(on_two_servers)]
fn a_guard_goes_on_when_its_primary_dies_and_a_replica_takes_over(kind: Kind) {
    let mut cluster = Cluster::start(kind);
    let replica = cluster.replica_of(1);
    replica.run("CONFIG SET dlock.quarantine off");
    run(async {
        let client = connect(&[cluster.url(&[0, 1, 2])]).await;
        let key = cluster.key(1, "job");
        let guard = wait_for(&client, &key, LONG).await;
        let waiting = waiters(&client, &key, 2);
        cluster.nodes[1].until_blocked(2);
        cluster.nodes[1].until_followed_by(&replica);
        cluster.nodes[1].kill();
        until_extended_at(&replica, &guard).await;
        replica.until_blocked(2);
        assert_served_after(fence_of(guard).await, waiting).await;
        // The other connections were open all the time.
        fence_of(wait_for(&client, &cluster.key(0, "job"), LONG).await).await;
    });
}

/// A firewall silently drops connections that were idle for long.
#[test]
fn a_guard_goes_on_when_its_primary_dies_and_the_connections_to_the_others_are_dead() {
    let mut cluster = Cluster::start(Kind::Redis82);
    let replica = cluster.replica_of(1);
    replica.run("CONFIG SET dlock.quarantine off");
    let links: Vec<Proxy> = cluster.nodes.iter().map(|node| Proxy::start(node.port())).collect();
    let over = |(node, link): (&Server, &Proxy)| {
        format!("map=127.0.0.1:{}=127.0.0.1:{}", node.port(), link.port())
    };
    let maps: Vec<String> = cluster.nodes.iter().zip(&links).map(over).collect();
    let seeds: Vec<String> =
        links.iter().map(|link| format!("127.0.0.1:{}", link.port())).collect();
    let url = format!("redis+cluster://{}?{}", seeds.join(","), maps.join("&"));
    run(async {
        let client = connect(&[url]).await;
        for node in 0..3 {
            fence_of(wait_for(&client, &cluster.key(node, "other"), LONG).await).await;
        }
        let guard = wait_for(&client, &cluster.key(1, "job"), LONG).await;
        cluster.nodes[1].until_followed_by(&replica);
        links[0].keep_back(Way::Down);
        links[2].keep_back(Way::Down);
        cluster.nodes[1].kill();
        until_extended_at(&replica, &guard).await;
        fence_of(guard).await;
    });
}

#[test]
fn a_guard_goes_on_when_its_primary_freezes() {
    let cluster = Cluster::start(Kind::Valkey91);
    let replica = cluster.replica_of(0);
    run(async {
        let client = connect(&[cluster.url(&[0, 1, 2])]).await;
        let guard = wait_for(&client, &cluster.key(0, "job"), LONG).await;
        cluster.nodes[0].until_followed_by(&replica);
        cluster.nodes[0].pause();
        until_extended_at(&replica, &guard).await;
        cluster.nodes[0].resume();
        fence_of(guard).await;
    });
}

/// A cluster of one server, with this epoch.
fn cluster_of_one(epoch: u64) -> Server {
    let server = Server::build(Kind::Redis82).cluster().start();
    server.run(&format!("CLUSTER SET-CONFIG-EPOCH {epoch}"));
    server.run("CLUSTER ADDSLOTSRANGE 0 16383");
    let serves = || server.run("CLUSTER INFO").text().contains("cluster_state:ok");
    eventually("it serves", serves);
    server
}

#[test]
fn a_cluster_that_was_made_anew_is_found_at_the_addresses_of_the_list() {
    let (former, anew) = (cluster_of_one(7), cluster_of_one(1));
    let link = Proxy::start(former.port());
    let at = |server: &Server| format!("map=127.0.0.1:{}=127.0.0.1:{}", server.port(), link.port());
    let url = format!("redis+cluster://127.0.0.1:{}?{}&{}", link.port(), at(&former), at(&anew));
    run(async {
        let client = connect(&[url]).await;
        fence_of(wait_for(&client, "job", LONG).await).await;
        link.lead_to(anew.port());
        link.cut();
        let guard = wait_for(&client, "job", LONG).await;
        assert_eq!(anew.holders("job"), [guard.token().to_string()]);
        fence_of(guard).await;
    });
}

/// The address of a former server may be given to one that is no member of the cluster.
#[test]
fn a_server_of_another_cluster_or_of_none_is_not_taken_for_one_that_had_its_address() {
    let cluster = Cluster::start(Kind::Redis82);
    let link = Proxy::start(cluster.nodes[1].port());
    let (told, port) = (cluster.nodes[1].port(), link.port());
    let url = format!("{}?map=127.0.0.1:{told}=127.0.0.1:{port}", cluster.url(&[0]));
    let (alone, member) = (Server::start(Kind::Redis82), cluster_of_one(99));
    run(async {
        let client = connect(&[url]).await;
        let key = cluster.key(1, "job");
        fence_of(wait_for(&client, &key, LONG).await).await;
        for other in [&alone, &member] {
            link.lead_to(other.port());
            // A waiter's own connection leads elsewhere than the open one.
            let held = cluster.nodes[1].run(&format!("DLOCK.ACQUIRE {key} somebody 60000"));
            assert!(held.is_int(), "{held:?}");
            let waits = client.lock(&key).ttl(LONG).wait(ms(500));
            let refused = waits.acquire().await;
            assert!(refused.is_err(), "{refused:?}");
            cluster.nodes[1].run(&format!("DLOCK.RELEASE {key} somebody"));
            link.cut();
            // The first may fail by the cut.
            for _ in 0..3 {
                let refused = client.lock(&key).ttl(LONG).try_acquire().await;
                assert!(matches!(refused, Err(Error::NoQuorum { .. })), "{refused:?}");
            }
            link.lead_to(told);
            link.cut();
            fence_of(wait_for(&client, &key, LONG).await).await;
        }
    });
}

#[test]
fn a_server_that_lets_no_client_in_any_more_is_replaced_by_the_one_that_has_its_slots() {
    let cluster = Cluster::start(Kind::Redis82);
    let replica = cluster.replica_of(1);
    replica.run("CONFIG SET dlock.quarantine off");
    run(async {
        let client = connect(&[cluster.url(&[0])]).await;
        let key = cluster.key(1, "job");
        fence_of(wait_for(&client, &key, LONG).await).await;
        assert_eq!(replica.run("CLUSTER FAILOVER").text(), "OK");
        until("it has the slots", || !replica.run(&format!("DLOCK.INSPECT {key}")).is_error())
            .await;
        let mut former = cluster.nodes[1].client();
        for command in ["CONFIG SET requirepass secret", "CLIENT KILL TYPE normal"] {
            former.run(command);
        }
        // The other servers may not know of the fail-over yet: the map is read again until they do.
        fence_of(wait_for(&client, &key, LONG).await).await;
    });
}
