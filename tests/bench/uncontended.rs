//! A lock that nobody else wants, beside the lock libraries that people use today: how long it
//! takes to have it. dlock and one of them in turns, each time in a new process.

use harness::{Kind, Server};

use crate::measure::{Compared, Side, in_turns, median};
use crate::options::Options;
use crate::peers::{DLOCK, PEERS, Peer};
use crate::report::{Report, Row, Target};

/// So many acquisitions are one figure.
const ACQUISITIONS: usize = 300;

/// Adds the figures.
pub fn run(kind: Kind, options: &Options, report: &mut Report) {
    if let Err(why) = measure(kind, options, report) {
        report.give_up(why);
    }
}

fn measure(kind: Kind, options: &Options, report: &mut Report) -> Result<(), String> {
    let five: Vec<Server> = (0..5).map(|_| Server::start(kind)).collect();
    for nodes in [1, 5] {
        let what = if nodes == 1 { "acquire, p50, 1 node" } else { "acquire, p50, 5 nodes" };
        for peer in PEERS.iter().filter(|peer| nodes == 1 || peer.several_nodes) {
            let figures = compared(peer, &five[..nodes], options.rounds(12))?;
            report.add(kind, Row::compared(what, peer.name, "µs", figures, Target::None));
        }
    }
    Ok(())
}

fn compared(peer: &Peer, servers: &[Server], rounds: usize) -> Result<Compared, String> {
    let mut failure = None;
    let [figures] = in_turns(rounds, |side| {
        let one = if side == Side::Ours { &DLOCK } else { peer };
        let measured = one.uncontended(servers, ACQUISITIONS).map(median);
        [measured.unwrap_or_else(|why| {
            failure.get_or_insert(why);
            f64::NAN
        })]
    });
    failure.map_or(Ok(figures), Err)
}
