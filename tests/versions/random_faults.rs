//! Nodes that are upgraded one after the other, and crash, while programs contend and their networks fail. No two are told
//! at the same time that they hold, and fences grow.

use std::thread;
use std::time::Instant;

use harness::contender::{self, Wish, change_networks};
use harness::library::ms;
use harness::{Kind, Quorum, soak};
use rand::RngExt;

use crate::former;

#[test]
fn no_two_hold_together_while_nodes_are_upgraded_in_turns() {
    let kinds = [Kind::Redis82, Kind::Valkey91, Kind::Redis70];
    let mut quorum = Quorum::of(kinds.map(former::node).into());
    let (begun, lasts) = (Instant::now(), soak::run(ms(10_000), ms(60_000)));
    let (mut upgraded, mut crashes) = (0, 0);
    let history = contender::run(&mut quorum, Wish::ReadOrWrite, lasts, |nodes, networks, rng| {
        change_networks(networks, rng);
        thread::sleep(ms(rng.random_range(5..60)));
        if upgraded < 3 && begun.elapsed() > lasts * (upgraded + 1) / 4 {
            let node = &mut nodes[upgraded as usize];
            node.stop();
            node.take_module_back();
            node.start_again();
            upgraded += 1;
        } else if rng.random_range(0..40) == 0 {
            let node = &mut nodes[rng.random_range(0..3)];
            node.kill();
            node.start_again();
            crashes += 1;
        }
    });
    eprintln!("{upgraded} upgrades, {crashes} crashes, {} grants", history.len());
    history.assert_kept("nodes that are upgraded in turns");
    assert_eq!(upgraded, 3);
}
