//! The events of [`chaos`](crate::chaos) over a cluster.

use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use harness::contender::KEYS;
use harness::{Apart, Certificates, Cluster, Kind, Server, apply, eventually, on_every_server};
use rand::RngExt;
use rand::rngs::StdRng;

use crate::chaos::{prepare, run_chaos, say};
use crate::chaos_servers::{assert_sent_anew, break_replication, cut_for_long, stand_still};
use crate::coordinator::ms;

/// A slot that moves key by key is held this long, at most. It is less than a quarantine; otherwise the
/// server that is promoted next would wait for that lease.
const MOVE: Duration = ms(2_000);

/// A fence this far ahead, in µs, may not move by itself: half of ten minutes.
const FAR: i64 = 300_000_000;

#[apply(on_every_server)]
fn a_cluster_keeps_its_promises(kind: Kind) {
    chaos_in_a_cluster(kind, None);
}

#[test]
fn a_cluster_keeps_its_promises_behind_tls() {
    chaos_in_a_cluster(Kind::Redis70, Some(&Certificates::valid()));
}

fn chaos_in_a_cluster(kind: Kind, tls: Option<&Certificates>) {
    let mut cluster = Cluster::start_over_networks(kind, tls);
    cluster.nodes.iter().for_each(prepare);
    let ports: Vec<u16> = (0..cluster.nodes.len()).map(|node| cluster.told(node)).collect();
    let url = cluster.url(&[0, 1, 2]);
    // The last three need servers that migrate slots as a whole.
    let events = if kind.migrates_slots() { 15 } else { 12 };
    run_chaos(&url, &ports, |rng, links| {
        let key = KEYS[rng.random_range(0..KEYS.len())];
        let slot = cluster.slot(key);
        let (owner, replica) = pair(&cluster, slot);
        // A server that took over before it was told its primary's promise would wait for a day.
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
            9 => cut_replication_for_long(&mut cluster, key, slot, rng),
            10 => part_from_everybody(&cluster, slot, owner, rng),
            11 => part_from_everybody(&cluster, slot, replica, rng),
            12 => {
                say("slots migrate");
                migrate(&cluster, slot, false, rng);
            }
            13 => {
                say("slots migrate, and do not");
                migrate(&cluster, slot, true, rng);
            }
            _ => crash_while_slots_migrate(&mut cluster, slot, rng),
        }
    });
}

/// A server crashes, and comes back when the others have replaced it.
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

/// The owner of a slot pauses, for a moment, or until its replica has taken over.
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

/// A replica pauses, for a moment, or until others consider it failed.
fn freeze_replica(cluster: &Cluster, slot: usize, replica: usize, rng: &mut StdRng) {
    say(&format!("replica {replica} stands still"));
    stand_still(&cluster.nodes[replica], 4_000, rng);
    until_calm(cluster, slot, None);
}

/// Messages between servers come late or not at all, for longer than the servers' time-out.
fn part(cluster: &Cluster, slot: usize, rng: &mut StdRng) {
    say("servers hear little of each other");
    let until = Instant::now() + ms(rng.random_range(200..5_000));
    while Instant::now() < until {
        let bus = &cluster.networks[rng.random_range(0..cluster.networks.len())].bus;
        match rng.random_range(0..6) {
            0 => bus.cut(),
            1 => bus.refuse(),
            2 | 3 => bus.swallow(),
            4 => bus.delay(ms(rng.random_range(1..300))),
            _ => bus.pass(),
        }
        thread::sleep(ms(rng.random_range(10..200)));
    }
    Apart::join(&cluster.networks);
    until_calm(cluster, slot, None);
}

/// A server is isolated: for a moment, or until others consider it failed.
fn part_from_everybody(cluster: &Cluster, slot: usize, server: usize, rng: &mut StdRng) {
    let long = rng.random_range(0..3) > 0;
    let leads = cluster.owner(slot, server) == Some(server);
    say(&format!("server {server} is parted, and leads: {leads}, for long: {long}"));
    Apart::part(&cluster.networks, server);
    match (long, leads) {
        (true, true) => until_calm(cluster, slot, Some(server)),
        (true, false) => thread::sleep(ms(rng.random_range(3_000..9_000))),
        _ => thread::sleep(ms(rng.random_range(50..1_500))),
    }
    Apart::join(&cluster.networks);
    until_calm(cluster, slot, None);
}

/// A replica receives nothing from its primary until both have given up, and gets everything anew. Or the
/// primary crashes before that, and the replica takes over with what it has.
fn cut_replication_for_long(cluster: &mut Cluster, key: &str, slot: usize, rng: &mut StdRng) {
    let (owner, replica) = pair(cluster, slot);
    let dies = rng.random_range(0..3) == 0;
    say(&format!("replication from {owner} to {replica} is cut, and the primary dies: {dies}"));
    let primary = &cluster.nodes[owner];
    let from = cluster.networks[replica].from;
    let before = cut_for_long(primary, &cluster.networks[owner], from, &format!("filler{{{key}}}"));
    if dies {
        cluster.nodes[owner].kill();
        Apart::join(&cluster.networks);
        until_calm(cluster, slot, Some(owner));
        return start_again(cluster, slot, owner);
    }
    Apart::join(&cluster.networks);
    until_calm(cluster, slot, None);
    // On a machine that pauses for a moment another may have taken over.
    if cluster.owner(slot, owner) == Some(owner) {
        assert_sent_anew(&cluster.nodes[owner], before);
    }
}

/// Replication breaks again and again, and the primary may crash while its replica lags.
fn cut_replication(cluster: &mut Cluster, slot: usize, owner: usize, rng: &mut StdRng) {
    say("replication breaks");
    break_replication(&cluster.nodes[owner], rng);
    if rng.random_range(0..3) == 0 {
        return crash(cluster, slot, owner);
    }
    until_calm(cluster, slot, None);
}

/// A slot goes to another primary key by key. Only a held lock takes its fence along, so it is held.
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
    // Many fail-overs in a few minutes put fences far ahead of clocks. A key that comes with such a fence is
    // refused.
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
    // A server in quarantine answers no CHECK.
    let words = format!("DLOCK.EXTEND {key} mover {} FENCE {}", MOVE.as_millis(), taken.int());
    let kept = cluster.nodes[target].run(&words);
    if began.elapsed() < MOVE / 2 {
        assert_eq!(kept.int(), 1, "the lock went along");
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

/// One of the two servers crashes.
fn crash_while_slots_migrate(cluster: &mut Cluster, slot: usize, rng: &mut StdRng) {
    let (owner, _) = pair(cluster, slot);
    let target = another_primary(cluster, owner, rng);
    let source = &cluster.nodes[owner];
    eventually("the node is not in quarantine", || source.node("granting").text() != "quarantine");
    cluster.hold_migrations(owner);
    cluster.try_to_migrate(slot, owner, target);
    thread::sleep(ms(rng.random_range(0..500)));
    let victim = if rng.random_range(0..2) == 0 { owner } else { target };
    say(&format!("server {victim} dies while a slot migrates from {owner} to {target}"));
    if victim == target {
        cluster.let_migrations_go(owner);
    }
    cluster.nodes[victim].kill();
    until_calm(cluster, slot, Some(victim));
    start_again(cluster, slot, victim);
    until_migrations_are_over(cluster);
}

/// A replica of the owner of a slot takes over in agreement with it. On a machine that pauses for a moment it
/// may have done so by itself, or has to be asked once more.
fn planned(cluster: &Cluster, slot: usize) {
    let (_, replica) = pair(cluster, slot);
    let mut asked: Option<Instant> = None;
    // All was calm before it began, too.
    eventually("the replica has taken over", || {
        let leads = cluster.owner(slot, replica) == Some(replica);
        if !leads && asked.is_none_or(|asked| asked.elapsed() > GIVEN_UP) {
            asked = Some(Instant::now());
            cluster.nodes[replica].run("CLUSTER FAILOVER");
        }
        leads
    });
    until_calm(cluster, slot, None);
}

/// Servers abandon a planned fail-over after five seconds.
const GIVEN_UP: Duration = ms(6_000);

/// A slot goes to another primary, unless the migration is cancelled.
fn migrate(cluster: &Cluster, slot: usize, is_cancelled: bool, rng: &mut StdRng) {
    let (owner, _) = pair(cluster, slot);
    let source = &cluster.nodes[owner];
    // A node would not give away a lock that it may have forgotten.
    eventually("the node is not in quarantine", || source.node("granting").text() != "quarantine");
    let others: Vec<usize> = (0..cluster.nodes.len())
        .filter(|node| *node != owner && cluster.nodes[*node].node("role").text() == "primary")
        .collect();
    let to = others[rng.random_range(0..others.len())];
    if is_cancelled {
        cluster.hold_migrations(owner);
    } else {
        cluster.let_migrations_go(owner);
    }
    cluster.try_to_migrate(slot, owner, to);
    if is_cancelled {
        thread::sleep(ms(rng.random_range(0..300)));
        cluster.try_to_cancel(owner, to);
        cluster.let_migrations_go(owner);
    }
    until_migrations_are_over(cluster);
    until_calm(cluster, slot, None);
}

/// Waits until no server sends a slot, or gets one.
fn until_migrations_are_over(cluster: &Cluster) {
    eventually("the migration is over", || cluster.has_no_migrations());
}

/// The owner of a slot, and its partner.
fn pair(cluster: &Cluster, slot: usize) -> (usize, usize) {
    let owner = cluster.owner(slot, 0).expect("each slot has an owner");
    // Each stays with its first partner, whichever of the two leads.
    (owner, (owner + 3) % 6)
}

/// Waits until all running servers agree on the owner of a slot, which runs, too. All running replicas follow
/// then.
fn until_calm(cluster: &Cluster, slot: usize, dead: Option<usize>) {
    let alive: Vec<usize> = (0..cluster.nodes.len()).filter(|node| Some(*node) != dead).collect();
    eventually("the cluster is well", || {
        let owners: BTreeSet<_> = alive.iter().map(|node| cluster.owner(slot, *node)).collect();
        let is_alive = |owner: &Option<usize>| owner.is_some_and(|owner| alive.contains(&owner));
        owners.len() == 1
            && owners.iter().all(is_alive)
            && alive.iter().all(|node| is_well(&cluster.nodes[*node]))
    });
}

fn is_well(node: &Server) -> bool {
    let replication = node.info("replication");
    let follows = replication.get("master_link_status").is_none_or(|link| link == "up");
    follows && node.run("CLUSTER INFO").text().contains("cluster_state:ok")
}
