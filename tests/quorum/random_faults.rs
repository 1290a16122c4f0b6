//! Programs that contend for a few locks while their networks and the nodes fail at random. Each
//! writes down when it was told that it holds, and no two may have been told so at the same time. Judges that
//! others wrote see the same histories.

use std::fs;
use std::thread;

use harness::contender::{self, TTL, Wish, change_networks};
use harness::{Quorum, soak};
use rand::{Rng, RngExt};

use crate::coordinator::ms;

#[test]
fn no_two_hold_together_while_networks_fail() {
    contend(3, Nodes::Run, Wish::Write);
}

#[test]
fn no_two_hold_together_on_five_nodes_while_networks_fail() {
    contend(5, Nodes::Run, Wish::Write);
}

#[test]
fn no_writer_holds_with_anybody_while_networks_fail() {
    contend(3, Nodes::Run, Wish::ReadOrWrite);
}

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

#[test]
fn no_two_hold_together_while_nodes_lose_their_disks() {
    contend(3, Nodes::LoseDisks, Wish::Write);
}

#[test]
fn no_two_hold_together_on_one_node_while_it_loses_its_disk() {
    contend(1, Nodes::LoseDisks, Wish::Write);
}

#[test]
fn no_two_hold_together_on_one_node_while_its_network_fails() {
    contend(1, Nodes::Run, Wish::Write);
}

#[test]
fn no_more_hold_on_one_node_than_there_are_permits() {
    contend(1, Nodes::Crash, Wish::Permit);
}

/// The nodes' own faults, beside those of their networks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Nodes {
    Run,
    Pause,
    Crash,
    LoseDisks,
}

fn contend(size: usize, nodes: Nodes, wish: Wish) {
    let mut quorum = match nodes {
        Nodes::LoseDisks => Quorum::with(size, |node| {
            node.config(&format!("dlock.newborn-quarantine {}", TTL.as_millis()))
        }),
        _ => Quorum::start(size),
    };
    // Many seconds here would find more, and cost everybody who runs the tests as many.
    let lasts = soak::run(ms(3_000), ms(30_000));
    let history = contender::run(&mut quorum, wish, lasts, |quorum, networks, rng| {
        change_networks(networks, rng);
        trouble(quorum, nodes, rng);
        thread::sleep(ms(rng.random_range(5..60)));
    });
    let about = format!("{size} nodes, {nodes:?}, {wish:?}");
    eprintln!("{about}: {} grants", history.len());
    history.assert_kept(&about);
    quorum.until_empty();
}

/// Sometimes a node itself is in trouble, one at a time.
fn trouble(quorum: &mut Quorum, nodes: Nodes, rng: &mut impl Rng) {
    if rng.random_range(0..8) > 0 {
        return;
    }
    let place = rng.random_range(0..quorum.len());
    let node = &mut quorum[place];
    match nodes {
        Nodes::Run => {}
        Nodes::Pause => {
            node.pause();
            thread::sleep(ms(rng.random_range(10..600)));
            node.resume();
        }
        Nodes::Crash => {
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
