//! What happens in a storm of [`chaos`](crate::chaos), to a cluster and to a primary behind Sentinels.

use std::thread;

use harness::watched::Watched;
use harness::{Cluster, Kind, Server, eventually};
use rand::RngExt;
use rand::rngs::StdRng;

use crate::chaos::{Links, prepare, say, storm};
use crate::coordinator::ms;
use crate::fail_overs::{migrate, pair, planned, until_calm, until_migrations_are_over};
use crate::weather::KEYS;

#[test]
fn a_cluster_whose_slots_migrate_keeps_its_promises() {
    storm_in_a_cluster(Kind::Valkey91, 9);
}

#[test]
fn an_older_cluster_keeps_its_promises() {
    storm_in_a_cluster(Kind::Redis82, 6);
}

#[test]
fn a_primary_behind_sentinels_keeps_its_promises() {
    let mut node = Watched::start(Kind::Redis82, 2);
    node.servers.iter().for_each(prepare);
    let ports: Vec<u16> = node.servers.iter().map(Server::port).collect();
    let (url, mut primary) = (node.url(), 0);
    storm(&url, &ports, |rng, links| happen_behind_sentinels(&mut node, &mut primary, rng, links));
}

/// The last three events are for servers that migrate slots as a whole.
fn storm_in_a_cluster(kind: Kind, events: u32) {
    let mut cluster = Cluster::start_with_replicas(kind);
    cluster.nodes.iter().for_each(prepare);
    let ports: Vec<u16> = cluster.nodes.iter().map(Server::port).collect();
    let url = cluster.url(&[0, 1, 2]);
    storm(&url, &ports, |rng, links| {
        let key = KEYS[rng.random_range(0..KEYS.len())];
        let slot = cluster.slot(key);
        let (owner, replica) = pair(&cluster, slot);
        match rng.random_range(0..events) {
            0 => {
                say("a planned fail-over");
                planned(&cluster, slot);
            }
            1 => crash(&mut cluster, slot, owner),
            2 => crash(&mut cluster, slot, replica),
            3 => freeze(&cluster, slot, owner, rng),
            4 => {
                say("links fail");
                links.fail(rng);
            }
            5 => move_by_keys(&cluster, key, slot, rng),
            6 => {
                say("slots migrate");
                migrate(&cluster, slot, false, rng);
            }
            7 => {
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
fn freeze(cluster: &Cluster, slot: usize, owner: usize, rng: &mut StdRng) {
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

/// A slot goes to another primary key by key. What nobody holds takes no fence along, so somebody
/// holds it.
fn move_by_keys(cluster: &Cluster, key: &str, slot: usize, rng: &mut StdRng) {
    let (owner, _) = pair(cluster, slot);
    let (source, target) = (&cluster.nodes[owner], another_primary(cluster, owner, rng));
    eventually("the node is not in quarantine", || source.node("granting").text() != "quarantine");
    let taken = source.run(&format!("DLOCK.ACQUIRE {key} mover 20000 WAIT 10000"));
    if !taken.is_int() {
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
    until_calm(cluster, slot, None);
    assert_eq!(cluster.owner(slot, owner), Some(target));
    let kept = cluster.nodes[target].run(&format!("DLOCK.CHECK {key} mover"));
    assert_eq!(kept.int(), taken.int(), "the lock went along");
    cluster.nodes[target].run(&format!("DLOCK.RELEASE {key} mover"));
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
    let sentinel = rng.random_range(0..3);
    match rng.random_range(0..6) {
        0 => {
            say("the primary dies");
            node.servers[*primary].kill();
            replace(node, primary, &[0, 1, 2]);
        }
        1 => {
            say("the primary dies beside a Sentinel");
            node.sentinels[sentinel].kill();
            node.servers[*primary].kill();
            let awake: Vec<usize> = (0..3).filter(|one| *one != sentinel).collect();
            replace(node, primary, &awake);
            node.sentinels[sentinel].start_again();
        }
        2 => {
            say("the primary stands still beside a Sentinel");
            node.sentinels[sentinel].pause();
            node.servers[*primary].pause();
            let awake: Vec<usize> = (0..3).filter(|one| *one != sentinel).collect();
            replace(node, primary, &awake);
            node.sentinels[sentinel].resume();
        }
        3 => {
            say("the primary stands still for a moment");
            node.servers[*primary].pause();
            thread::sleep(ms(rng.random_range(50..500)));
            node.servers[*primary].resume();
        }
        4 => {
            say("a replica dies");
            node.servers[replica].kill();
            thread::sleep(ms(rng.random_range(0..1_000)));
            node.servers[replica].start_again();
            prepare(&node.servers[replica]);
            follow(node, replica, *primary);
        }
        _ => {
            say("links fail");
            links.fail(rng);
        }
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
