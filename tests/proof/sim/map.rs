//! The places of all processes and servers. A message between two places always takes the same time, and no
//! way round is shorter.

use super::dice::Dice;

/// A place for each process and each server.
pub struct Map {
    processes: Vec<(f64, f64)>,
    servers: Vec<(f64, f64)>,
    /// The kind of life.
    pub kind: Kind,
}

/// Lives without faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// All clients queue at the same node, from the beginning.
    OneGate,
    /// As many nodes as possible are away, or each client does not reach some. Clients queue at any of the
    /// others.
    AnyGate,
    /// As many nodes as possible are deaf. Clients may try before they queue.
    Deaf,
}

impl Map {
    /// Puts all processes and servers on the map.
    pub fn new(dice: &mut Dice, processes: usize, servers: usize, kind: Kind) -> Map {
        let size = dice.one_of(&[200, 2_000, 10_000]);
        let mut somewhere = |_: usize| (dice.between(0, size) as f64, dice.between(0, size) as f64);
        Map {
            processes: (0..processes).map(&mut somewhere).collect(),
            servers: (0..servers).map(&mut somewhere).collect(),
            kind,
        }
    }

    /// The time that a message takes, in microseconds.
    pub fn between(&self, process: usize, server: usize) -> u64 {
        let ((x, y), (to_x, to_y)) = (self.processes[process], self.servers[server]);
        ENDS + (x - to_x).hypot(y - to_y) as u64
    }
}

/// A message takes this long at its two ends, however near they are.
const ENDS: u64 = 50;
