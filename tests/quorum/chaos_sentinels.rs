//! The events of [`chaos`](crate::chaos) over a primary behind Sentinels.

use std::thread;

use harness::watched::Watched;
use harness::{Apart, Certificates, Kind, apply, eventually, on_every_server};
use rand::RngExt;
use rand::rngs::StdRng;

use crate::chaos::{Links, prepare, run_chaos, say};
use crate::chaos_servers::{assert_sent_anew, break_replication, cut_for_long, stand_still};
use crate::coordinator::ms;

#[apply(on_every_server)]
fn a_primary_behind_sentinels_keeps_its_promises(kind: Kind) {
    chaos_behind_sentinels(kind, None);
}

#[test]
fn a_primary_behind_sentinels_keeps_its_promises_behind_tls() {
    chaos_behind_sentinels(Kind::Redis70, Some(&Certificates::valid()));
}

fn chaos_behind_sentinels(kind: Kind, tls: Option<&Certificates>) {
    let mut node = Watched::start_over_networks(kind, tls);
    node.servers.iter().for_each(prepare);
    let ports: Vec<u16> = (0..node.servers.len()).map(|server| node.told(server)).collect();
    let (url, mut primary) = (node.url(), 0);
    run_chaos(&url, &ports, |rng, links| {
        happen_behind_sentinels(&mut node, &mut primary, rng, links)
    });
}

fn happen_behind_sentinels(
    node: &mut Watched,
    primary: &mut usize,
    rng: &mut StdRng,
    links: &Links,
) {
    // The Sentinels need the replicas' addresses before they can promote one.
    eventually("the Sentinels know everybody", || {
        node.sentinels.iter().all(|one| one.knows(2, 2) == Some(true))
    });
    // On a machine that pauses for a moment they may have done so by themselves.
    *primary = node.at(node.sentinels[0].primary());
    let replica = (*primary + rng.random_range(1..3)) % 3;
    match rng.random_range(0..12) {
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
        4 => crash_replica(node, replica, *primary, rng),
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
        8 => part_a_primary(node, primary, rng),
        9 => part_a_replica(node, replica, *primary, rng),
        10 => starve_replicas(node, primary, rng),
        _ => {
            say("links fail");
            links.fail(rng);
        }
    }
}

fn crash_replica(node: &mut Watched, replica: usize, primary: usize, rng: &mut StdRng) {
    say("a replica dies");
    node.servers[replica].kill();
    thread::sleep(ms(rng.random_range(0..1_000)));
    node.servers[replica].start_again();
    prepare(&node.servers[replica]);
    follow(node, replica, primary);
}

fn part_a_replica(node: &Watched, replica: usize, primary: usize, rng: &mut StdRng) {
    say("a replica is parted from everybody");
    Apart::part(&node.networks, replica);
    thread::sleep(ms(rng.random_range(50..9_000)));
    Apart::join(&node.networks);
    node.until_followed(primary);
}

/// The primary is isolated, for a moment, or until another server has taken over.
fn part_a_primary(node: &mut Watched, primary: &mut usize, rng: &mut StdRng) {
    let long = rng.random_range(0..3) > 0;
    say(&format!("the primary is parted from everybody, for long: {long}"));
    Apart::part(&node.networks, *primary);
    if !long {
        thread::sleep(ms(rng.random_range(50..500)));
        return Apart::join(&node.networks);
    }
    let old = std::mem::replace(primary, node.promoted(*primary, &[0, 1, 2]));
    Apart::join(&node.networks);
    follow(node, old, *primary);
}

/// Both replicas receive nothing from the primary for long. It may crash before they do again.
fn starve_replicas(node: &mut Watched, primary: &mut usize, rng: &mut StdRng) {
    let dies = rng.random_range(0..3) == 0;
    say(&format!("replication is cut, and the primary dies: {dies}"));
    let mut before = 0;
    for replica in (0..3).filter(|one| one != primary) {
        let (server, network) = (&node.servers[*primary], &node.networks[*primary]);
        before = cut_for_long(server, network, node.networks[replica].from, "filler");
    }
    if dies {
        node.servers[*primary].kill();
        Apart::join(&node.networks);
        return replace(node, primary, &[0, 1, 2]);
    }
    Apart::join(&node.networks);
    node.until_followed(*primary);
    assert_sent_anew(&node.servers[*primary], before);
}

/// A Sentinel is down when it is needed.
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

/// Another server takes over from one that is down or paused. The latter follows it.
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

/// Makes a server follow the primary. The Sentinels would do so after a while.
fn follow(node: &Watched, server: usize, primary: usize) {
    let port = node.told(primary);
    node.servers[server].drop_own_client();
    node.servers[server].run(&format!("REPLICAOF 127.0.0.1 {port}"));
    node.until_followed(primary);
}
