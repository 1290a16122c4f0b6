//! Free loopback ports for servers.

use std::net::TcpListener;
use std::process;
use std::sync::{Mutex, PoisonError};

/// The distance from a cluster node's port to the port of its cluster bus.
const BUS: u16 = 10_000;

/// The first port. It is below the kernel's range for outgoing connections, so that no client can take a port
/// between this probe and the server's own bind.
const FIRST: u16 = 11_000;
const BLOCKS: u16 = 200;

/// The size of a block. Runs at the same time share the ports in blocks, in all languages: a block belongs to
/// the run that listens on its first port. Clients and Sentinels of a killed server would take a server of
/// another run at its port for that one.
const BLOCK: u16 = 50;

/// After this many blocks a run goes back to its first; its servers there have long ended.
const ENOUGH: usize = 8;

/// The blocks of this run, and the number of ports taken from them.
struct Mine {
    blocks: Vec<(u16, TcpListener)>,
    handed_out: usize,
}

static MINE: Mutex<Mine> = Mutex::new(Mine { blocks: Vec::new(), handed_out: 0 });

/// A port that is free now, together with its cluster bus port. Another program may still be quicker: after
/// the start of a server, check that this server answers.
pub fn free() -> u16 {
    let mut mine = MINE.lock().unwrap_or_else(PoisonError::into_inner);
    for _ in 0..ENOUGH * usize::from(BLOCK) {
        let port = mine.next();
        if listen(port).is_some() && listen(port + BUS).is_some() {
            return port;
        }
    }
    panic!("no free port from {FIRST} to {}", FIRST + BLOCKS * BLOCK);
}

impl Mine {
    fn next(&mut self) -> u16 {
        let in_a_block = usize::from(BLOCK - 1);
        let (place, step) = (self.handed_out / in_a_block, self.handed_out % in_a_block);
        self.handed_out += 1;
        if place == self.blocks.len() && place < ENOUGH {
            self.blocks.extend(another());
        }
        assert!(!self.blocks.is_empty(), "other runs have all blocks of ports");
        self.blocks[place % self.blocks.len()].0 + 1 + step as u16
    }
}

/// A free block. Runs at the same time begin to look at different places.
fn another() -> Option<(u16, TcpListener)> {
    let begin = (process::id() % u32::from(BLOCKS)) as u16;
    let blocks = (0..BLOCKS).map(|step| FIRST + (begin * 7 + step) % BLOCKS * BLOCK);
    blocks.filter_map(|first| Some((first, listen(first)?))).next()
}

fn listen(port: u16) -> Option<TcpListener> {
    TcpListener::bind(("127.0.0.1", port)).ok()
}
