//! Programs that contend for a few locks while their networks and the nodes fail at random. Each records the
//! times of its holds, and no two may overlap. Judges by other authors see the same histories. `make soak` has
//! all of them, and for longer.

use std::fs;
use std::thread;

use harness::contender::{self, TTL, Wish, change_networks};
use harness::{Builder, Kind, Quorum, Server, seed, soak};
use rand::seq::IteratorRandom;
use rand::{Rng, RngExt};

use crate::coordinator::ms;

#[cfg(feature = "soak")]
#[test]
fn no_two_hold_together_while_networks_fail() {
    contend(3, Nodes::Run, Wish::Write);
}

#[cfg(feature = "soak")]
#[test]
fn no_two_hold_together_on_five_nodes_while_networks_fail() {
    contend(5, Nodes::Run, Wish::Write);
}

#[test]
fn no_writer_holds_with_anybody_while_networks_fail() {
    contend(3, Nodes::Run, Wish::ReadOrWrite);
}

#[cfg(feature = "soak")]
#[test]
fn no_two_hold_together_while_nodes_are_suspended() {
    contend(3, Nodes::Pause, Wish::Write);
}

#[test]
fn no_two_hold_together_while_nodes_crash() {
    contend(3, Nodes::Crash, Wish::Write);
}

#[cfg(feature = "soak")]
#[test]
fn no_two_hold_together_on_five_nodes_while_they_crash() {
    contend(5, Nodes::Crash, Wish::Write);
}

#[cfg(feature = "soak")]
#[test]
fn no_two_hold_together_while_nodes_lose_their_disks() {
    contend(3, Nodes::LoseDisks, Wish::Write);
}

#[cfg(feature = "soak")]
#[test]
fn no_two_hold_together_on_one_node_while_it_loses_its_disk() {
    contend(1, Nodes::LoseDisks, Wish::Write);
}

#[cfg(feature = "soak")]
#[test]
fn no_two_hold_together_on_one_node_while_its_network_fails() {
    contend(1, Nodes::Run, Wish::Write);
}

#[cfg(feature = "soak")]
#[test]
fn no_two_hold_together_on_one_node_while_its_power_is_cut() {
    contend(1, Nodes::LosePower, Wish::Write);
}

#[cfg(feature = "soak")]
#[test]
fn no_two_hold_together_while_the_power_of_nodes_is_cut() {
    contend(3, Nodes::LosePower, Wish::Write);
}

#[cfg(feature = "soak")]
#[test]
fn no_two_hold_together_while_the_set_of_nodes_changes() {
    contend(4, Nodes::Change, Wish::Write);
}

#[test]
fn no_more_hold_on_one_node_than_there_are_permits() {
    contend(1, Nodes::Crash, Wish::Permit);
}

/// The nodes' own faults, besides network faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "soak"), allow(dead_code, reason = "make soak has them all"))]
enum Nodes {
    Run,
    Pause,
    Crash,
    /// They crash, and the last one is added to the set of the others, and then the first one is removed.
    Change,
    LoseDisks,
    /// Files lose the changes that were not synced. Sometimes a bit is flipped, too. Needs root and FUSE.
    LosePower,
}

fn contend(size: usize, nodes: Nodes, wish: Wish) {
    let mut quorum = match nodes {
        Nodes::LoseDisks => {
            // Several nodes need the time in which their clocks catch up with each other's first fences.
            let newborn = if size == 1 { TTL } else { ms(16_000) };
            let newborn = format!("dlock.newborn-quarantine {}", newborn.as_millis());
            Quorum::with(size, |node| node.config(&newborn))
        }
        Nodes::LosePower => {
            let files = ["appendfsync always", "appendfsync everysec", "save 1 1"];
            let kinds = [Kind::Redis82, Kind::Valkey91].into_iter().cycle();
            let first = seed::rng().random_range(0..files.len());
            let node = |(kind, place): (Kind, usize)| {
                let file = files[(first + place) % files.len()];
                let logs = if file.starts_with("append") { "yes" } else { "no" };
                let node = Server::build(kind).on_forgetful_disk().config(file);
                let wait = format!("dlock.newborn-quarantine {}", TTL.as_millis());
                node.config(&format!("appendonly {logs}")).config(&wait)
            };
            Quorum::of(kinds.zip(0..size).map(node).collect())
        }
        Nodes::Crash | Nodes::Change => {
            Quorum::of((0..size).map(node_with_its_own_clock).collect())
        }
        _ => Quorum::start(size),
    };
    // Many seconds here would find more, and cost each run of the tests as many.
    let lasts = soak::run(ms(3_000), ms(30_000));
    let all: Vec<usize> = (0..size).collect();
    let lists = match nodes {
        Nodes::Change => &[&all[..size - 1], &all, &all[1..]][..],
        _ => &[&all[..]],
    };
    let history = contender::run(&mut quorum, lists, wish, lasts, |quorum, networks, rng| {
        change_networks(networks, rng);
        trouble(quorum, nodes, rng);
        thread::sleep(ms(rng.random_range(5..60)));
    });
    let about = format!("{size} nodes, {nodes:?}, {wish:?}");
    eprintln!("{about}: {} grants", history.len());
    history.assert_kept(&about);
    quorum.until_empty();
}

/// Nodes with clocks that run one percent apart.
fn node_with_its_own_clock(place: usize) -> Builder {
    Server::build(Kind::Redis82).with_faster_clock(if place.is_multiple_of(2) {
        5_000
    } else {
        -5_000
    })
}

/// Sometimes a node itself fails, one at a time.
fn trouble(quorum: &mut Quorum, nodes: Nodes, rng: &mut impl Rng) {
    if rng.random_range(0..8) > 0 {
        return;
    }
    if nodes == Nodes::LosePower {
        return cut_power(quorum, rng);
    }
    let all_grant = || quorum.iter().all(|node| node.node("granting").text() == "yes");
    // One disk after the other, with `dlock ready` between them: a majority keeps its leases.
    if nodes == Nodes::LoseDisks && quorum.len() > 1 && !all_grant() {
        return;
    }
    let place = rng.random_range(0..quorum.len());
    let node = &mut quorum[place];
    match nodes {
        Nodes::Run | Nodes::LosePower => {}
        Nodes::Pause => {
            node.pause();
            thread::sleep(ms(rng.random_range(10..600)));
            node.resume();
        }
        Nodes::Crash | Nodes::Change => {
            node.kill();
            node.start_again();
        }
        Nodes::LoseDisks => {
            node.kill();
            fs::remove_file(node.state_file()).expect("it was there");
            node.start_again();
            // The next one may follow before it grants, or after.
            thread::sleep(ms(rng.random_range(0..900)));
        }
    }
}

/// Cuts the power of some nodes at the same time, maybe of all.
fn cut_power(quorum: &mut Quorum, rng: &mut impl Rng) {
    let many = rng.random_range(1..=quorum.len());
    for node in quorum.iter_mut().sample(rng, many) {
        node.cut_power(rng);
    }
    for node in quorum.iter_mut().filter(|node| !node.is_running()) {
        if rng.random_ratio(1, 4) {
            node.flip_bit(rng);
        }
        if let Err(log) = node.try_start_again() {
            eprintln!("a node does not start: {}", log.lines().last().unwrap_or_default());
            node.empty_disk();
            node.start_again();
        }
    }
    // All nodes grant again, now and then.
    thread::sleep(ms(rng.random_range(0..3_000)));
}
