//! What happens in a storm of [`chaos`](crate::chaos), to a cluster and to a primary behind Sentinels.

use std::thread;
use std::time::{Duration, Instant, SystemTime};

use harness::client::Client;
use harness::watched::Watched;
use harness::{Cluster, Kind, Proxy, Server, eventually};
use rand::RngExt;
use rand::rngs::StdRng;

use crate::chaos::{Links, prepare, say, storm};
use crate::coordinator::ms;
use crate::fail_overs::{migrate, pair, planned, until_calm, until_migrations_are_over};
use crate::weather::KEYS;

/// For how long a slot that moves key by key is held, at most: less than a quarantine lasts in any case,
/// or else who is promoted next would wait for that.
const MOVE: Duration = ms(2_000);

/// A fence so far ahead, in µs, may not move by itself: half of ten minutes.
const FAR: i64 = 300_000_000;

/// One that is mild would show the same everywhere: the other servers have theirs with `make soak`.
mod a_cluster_keeps_its_promises {
    use super::{Kind, storm_in_a_cluster};

    #[test]
    fn redis_8_2() {
        storm_in_a_cluster(Kind::Redis82);
    }

    #[test]
    fn valkey_9_1() {
        storm_in_a_cluster(Kind::Valkey91);
    }

    #[cfg(feature = "soak")]
    #[test]
    fn redis_7_0() {
        storm_in_a_cluster(Kind::Redis70);
    }

    #[cfg(feature = "soak")]
    #[test]
    fn valkey_8_1() {
        storm_in_a_cluster(Kind::Valkey81);
    }
}

mod a_primary_behind_sentinels_keeps_its_promises {
    use super::{Kind, storm_behind_sentinels};

    #[test]
    fn redis_8_2() {
        storm_behind_sentinels(Kind::Redis82);
    }

    #[cfg(feature = "soak")]
    #[test]
    fn redis_7_0() {
        storm_behind_sentinels(Kind::Redis70);
    }

    #[cfg(feature = "soak")]
    #[test]
    fn valkey_8_1() {
        storm_behind_sentinels(Kind::Valkey81);
    }

    #[cfg(feature = "soak")]
    #[test]
    fn valkey_9_1() {
        storm_behind_sentinels(Kind::Valkey91);
    }
}

fn storm_behind_sentinels(kind: Kind) {
    let mut node = Watched::start(kind, 2);
    node.servers.iter().for_each(prepare);
    let ports: Vec<u16> = node.servers.iter().map(Server::port).collect();
    let (url, mut primary) = (node.url(), 0);
    storm(&url, &ports, |rng, links| happen_behind_sentinels(&mut node, &mut primary, rng, links));
}

fn storm_in_a_cluster(kind: Kind) {
    let mut cluster = Cluster::start_over_networks(kind);
    cluster.nodes.iter().for_each(prepare);
    let ports: Vec<u16> = cluster.nodes.iter().map(Server::port).collect();
    let url = cluster.url(&[0, 1, 2]);
    // The last three are for servers that migrate slots as a whole.
    let events = if kind == Kind::Valkey91 { 12 } else { 9 };
    storm(&url, &ports, |rng, links| {
        let key = KEYS[rng.random_range(0..KEYS.len())];
        let slot = cluster.slot(key);
        let (owner, replica) = pair(&cluster, slot);
        // One that took over before it was told what its primary had promised would wait for a day.
        cluster.nodes[owner].until_streaming_to(&cluster.nodes[replica]);
        match rng.random_range(0..events) {
            0 => {
                say("a planned fail-over");
                planned(&cluster, slot);
            }
            1 => crash(&mut cluster, slot, owner),
            2 => crash(&mut cluster, slot, replica),
            3 => freeze_owner(&cluster, slot, owner, rng),
            4 => freeze_replica(&cluster, slot, replica, rng),
            5 => {
                say("links fail");
                links.fail(rng);
            }
            6 => move_by_keys(&cluster, key, slot, rng),
            7 => part(&cluster, slot, rng),
            8 => cut_replication(&mut cluster, slot, owner, rng),
            9 => {
                say("slots migrate");
                migrate(&cluster, slot, false, rng);
            }
            10 => {
                say("slots migrate, and do not");
                migrate(&cluster, slot, true, rng);
            }
            _ => crash_while_slots_migrate(&mut cluster, slot, rng),
        }
    });
}

/// A server dies, and comes back when the others have found their way.
fn crash(cluster: &mut Cluster, slot: usize, server: usize) {
    say(&format!("server {server} dies"));
    cluster.nodes[server].kill();
    until_calm(cluster, slot, Some(server));
    start_again(cluster, slot, server);
}

fn start_again(cluster: &mut Cluster, slot: usize, server: usize) {
    cluster.nodes[server].start_again();
    prepare(&cluster.nodes[server]);
    until_calm(cluster, slot, None);
}

/// The owner of a slot stands still, for a moment, or until its replica has taken over.
fn freeze_owner(cluster: &Cluster, slot: usize, owner: usize, rng: &mut StdRng) {
    let short = rng.random_range(0..2) == 0;
    say(&format!("server {owner} stands still, for a moment: {short}"));
    cluster.nodes[owner].pause();
    if short {
        thread::sleep(ms(rng.random_range(50..1_500)));
    } else {
        until_calm(cluster, slot, Some(owner));
    }
    cluster.nodes[owner].resume();
    until_calm(cluster, slot, None);
}

/// A replica stands still, for a moment, or until others take it for dead.
fn freeze_replica(cluster: &Cluster, slot: usize, replica: usize, rng: &mut StdRng) {
    say(&format!("replica {replica} stands still"));
    stand_still(&cluster.nodes[replica], 4_000, rng);
    until_calm(cluster, slot, None);
}

/// What servers tell each other comes late or not at all, for longer than it takes to be given up.
fn part(cluster: &Cluster, slot: usize, rng: &mut StdRng) {
    say("servers hear little of each other");
    let until = Instant::now() + ms(rng.random_range(200..5_000));
    while Instant::now() < until {
        let bus = &cluster.buses[rng.random_range(0..cluster.buses.len())];
        match rng.random_range(0..6) {
            0 => bus.cut(),
            1 => bus.refuse(),
            2 | 3 => bus.swallow(),
            4 => bus.delay(ms(rng.random_range(1..300))),
            _ => bus.pass(),
        }
        thread::sleep(ms(rng.random_range(10..200)));
    }
    cluster.buses.iter().for_each(Proxy::pass);
    until_calm(cluster, slot, None);
}

/// Replication breaks again and again, and the primary may die while its replica lags.
fn cut_replication(cluster: &mut Cluster, slot: usize, owner: usize, rng: &mut StdRng) {
    say("replication breaks");
    break_replication(&cluster.nodes[owner], rng);
    if rng.random_range(0..3) == 0 {
        return crash(cluster, slot, owner);
    }
    until_calm(cluster, slot, None);
}

/// A slot goes to another primary key by key. What nobody holds takes no fence along, so somebody
/// holds it.
fn move_by_keys(cluster: &Cluster, key: &str, slot: usize, rng: &mut StdRng) {
    let (owner, _) = pair(cluster, slot);
    let (source, target) = (&cluster.nodes[owner], another_primary(cluster, owner, rng));
    eventually("the node is not in quarantine", || source.node("granting").text() != "quarantine");
    let words = format!("DLOCK.ACQUIRE {key} mover {} WAIT 10000", MOVE.as_millis());
    let taken = source.run(&words);
    if !taken.is_int() {
        return;
    }
    let began = Instant::now();
    // After many fail-overs in a few minutes fences are far ahead of clocks, and a key that comes with such
    // a one is refused.
    if taken.int() > unix_micros() + FAR {
        source.run(&format!("DLOCK.RELEASE {key} mover"));
        return;
    }
    say(&format!("a slot moves from {owner} to {target}, key by key"));
    cluster.open(slot, owner, target);
    cluster.move_keys(slot, owner, target);
    let id = cluster.nodes[target].run("CLUSTER MYID").text();
    for node in [target, owner] {
        let done = cluster.nodes[node].run(&format!("CLUSTER SETSLOT {slot} NODE {id}"));
        assert_eq!(done.text(), "OK");
    }
    let kept = cluster.nodes[target].run(&format!("DLOCK.CHECK {key} mover"));
    if began.elapsed() < MOVE / 2 {
        assert_eq!(kept, taken, "the lock went along");
    }
    cluster.nodes[target].run(&format!("DLOCK.RELEASE {key} mover"));
    until_calm(cluster, slot, None);
    assert_eq!(cluster.owner(slot, owner), Some(target));
}

fn unix_micros() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_micros() as i64)
}

fn another_primary(cluster: &Cluster, owner: usize, rng: &mut StdRng) -> usize {
    let leads = |node: &usize| cluster.nodes[*node].node("role").text() == "primary";
    let others = (0..cluster.nodes.len()).filter(|node| *node != owner);
    let others: Vec<usize> = others.filter(leads).collect();
    others[rng.random_range(0..others.len())]
}

/// One of the two dies.
fn crash_while_slots_migrate(cluster: &mut Cluster, slot: usize, rng: &mut StdRng) {
    let (owner, _) = pair(cluster, slot);
    let target = another_primary(cluster, owner, rng);
    let source = &cluster.nodes[owner];
    eventually("the node is not in quarantine", || source.node("granting").text() != "quarantine");
    source.run("DEBUG SLOTMIGRATION PREVENT-PAUSE 1");
    let id = cluster.nodes[target].run("CLUSTER MYID").text();
    source.run(&format!("CLUSTER MIGRATESLOTS SLOTSRANGE {slot} {slot} NODE {id}"));
    thread::sleep(ms(rng.random_range(0..500)));
    let victim = if rng.random_range(0..2) == 0 { owner } else { target };
    say(&format!("server {victim} dies while a slot migrates from {owner} to {target}"));
    if victim == target {
        source.run("DEBUG SLOTMIGRATION PREVENT-PAUSE 0");
    }
    cluster.nodes[victim].kill();
    until_calm(cluster, slot, Some(victim));
    start_again(cluster, slot, victim);
    until_migrations_are_over(cluster);
}

fn happen_behind_sentinels(
    node: &mut Watched,
    primary: &mut usize,
    rng: &mut StdRng,
    links: &Links,
) {
    // They have to know who follows before they can promote anybody.
    eventually("the Sentinels know everybody", || {
        node.sentinels.iter().all(|one| one.knows(2, 2) == Some(true))
    });
    // On a machine that stands still for a moment they may have done so by themselves.
    let port = node.sentinels[0].primary();
    *primary = node.servers.iter().position(|one| one.port() == port).expect("it is one of them");
    let replica = (*primary + rng.random_range(1..3)) % 3;
    match rng.random_range(0..9) {
        0 => {
            say("the primary dies");
            node.servers[*primary].kill();
            replace(node, primary, &[0, 1, 2]);
        }
        1 | 2 => replace_beside_a_sentinel(node, primary, rng),
        3 => {
            say("the primary stands still for a moment");
            stand_still(&node.servers[*primary], 500, rng);
        }
        4 => {
            say("a replica dies");
            node.servers[replica].kill();
            thread::sleep(ms(rng.random_range(0..1_000)));
            node.servers[replica].start_again();
            prepare(&node.servers[replica]);
            follow(node, replica, *primary);
        }
        5 => {
            say("a replica stands still");
            stand_still(&node.servers[replica], 4_000, rng);
            node.until_followed(*primary);
        }
        6 => {
            say("replication breaks, and the primary dies");
            break_replication(&node.servers[*primary], rng);
            node.servers[*primary].kill();
            replace(node, primary, &[0, 1, 2]);
        }
        7 => {
            say("most Sentinels stand still, and the primary dies");
            let frozen = [1, 2].map(|other| (replica + other) % 3);
            frozen.iter().for_each(|one| node.sentinels[*one].pause());
            node.servers[*primary].kill();
            thread::sleep(ms(rng.random_range(0..3_000)));
            frozen.iter().for_each(|one| node.sentinels[*one].resume());
            replace(node, primary, &[0, 1, 2]);
        }
        _ => {
            say("links fail");
            links.fail(rng);
        }
    }
}

/// A Sentinel is not there when it is needed.
fn replace_beside_a_sentinel(node: &mut Watched, primary: &mut usize, rng: &mut StdRng) {
    let sentinel = rng.random_range(0..3);
    let awake: Vec<usize> = (0..3).filter(|one| *one != sentinel).collect();
    if rng.random_range(0..2) == 0 {
        say("the primary dies beside a Sentinel");
        node.sentinels[sentinel].kill();
        node.servers[*primary].kill();
        replace(node, primary, &awake);
        node.sentinels[sentinel].start_again();
    } else {
        say("the primary stands still beside a Sentinel");
        node.sentinels[sentinel].pause();
        node.servers[*primary].pause();
        replace(node, primary, &awake);
        node.sentinels[sentinel].resume();
    }
}

fn stand_still(server: &Server, longest: u64, rng: &mut StdRng) {
    server.pause();
    thread::sleep(ms(rng.random_range(50..longest)));
    server.resume();
}

/// Again and again, so that replicas lag.
fn break_replication(primary: &Server, rng: &mut StdRng) {
    for _ in 0..rng.random_range(5..40) {
        // Sentinels close connections, too, and also this one.
        let _ = Client::connect(primary.port()).and_then(|mut client| {
            client.try_send_raw(b"CLIENT KILL TYPE replica\r\n")?;
            client.try_recv()
        });
        thread::sleep(ms(rng.random_range(5..60)));
    }
}

/// Another server takes over from one that is dead or stands still, and that one follows it.
fn replace(node: &mut Watched, primary: &mut usize, sentinels: &[usize]) {
    let now = node.promoted(*primary, sentinels);
    let old = std::mem::replace(primary, now);
    if node.servers[old].is_running() {
        node.servers[old].resume();
    } else {
        node.servers[old].start_again();
    }
    prepare(&node.servers[old]);
    follow(node, old, now);
}

/// The Sentinels would see to that, too, after a while.
fn follow(node: &Watched, server: usize, primary: usize) {
    let port = node.servers[primary].port();
    node.servers[server].drop_own_client();
    node.servers[server].run(&format!("REPLICAOF 127.0.0.1 {port}"));
    node.until_followed(primary);
}
