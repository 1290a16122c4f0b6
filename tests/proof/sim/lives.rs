//! The kinds of lives: what can happen in them.

use dlock_core::Millis;
use dlock_core::quorum::Rules;

use super::flaw::Flaw;
use super::map::{Kind, Map};
use super::server::LOST;
use super::world::{NetworkConditions, World};

/// A kind of lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lives {
    /// Everything fails; each node is one server.
    Any,
    /// Nothing fails, and all clients have a place on a map: they are served in the order of arrival.
    InOrder,
    /// A minority of the nodes, the largest possible, is away or deaf, or each client does not reach some.
    /// Nothing else fails. Clients queue at any of the others. Beside deaf nodes a waiter has the lock soon after
    /// it was given back.
    AtAnyGate,
    /// Nodes are primaries with replicas, and fail over.
    WithReplicas,
    /// Addresses lead to other servers again and again, and processes begin anew.
    WithAddresses,
    /// Clients treat connections as the library does. Many connections break, and operators break many locks.
    OfTheLibrary,
    /// Servers that crash come back with an empty disk now and then; their clocks are right, within half a minute.
    LosingDisks,
    /// Clients leave locks done for a while, some as the library does.
    WithJobs,
    /// A server evicts locks.
    Evicting,
    /// Clocks are right, or are put right, and a client proposes fences that are far ahead.
    UnderAttack,
}

impl Lives {
    /// All of them, by their names.
    pub const ALL: [(&str, Lives); 10] = [
        ("sim", Lives::Any),
        ("order", Lives::InOrder),
        ("gates", Lives::AtAnyGate),
        ("replicas", Lives::WithReplicas),
        ("addresses", Lives::WithAddresses),
        ("library", Lives::OfTheLibrary),
        ("attack", Lives::UnderAttack),
        ("disks", Lives::LosingDisks),
        ("jobs", Lives::WithJobs),
        ("evictions", Lives::Evicting),
    ];

    /// The command that prints one life event by event.
    pub fn told(self, seed: u64) -> String {
        let named = Lives::ALL.iter().find(|(_, lives)| *lives == self);
        let name = named.map_or("", |(name, _)| name);
        format!("cargo run -p dlock-proof --bin prove -- {name} {seed}")
    }
}

impl<R: Rules> World<R> {
    /// Makes one of these lives. Nothing has happened yet.
    pub fn of(lives: Lives, seed: u64, rules: R, flaw: Option<Flaw>, tells: bool) -> World<R> {
        let mut world = World::new(seed, rules, flaw, tells);
        let majority = world.servers.len() / 2 + 1;
        match lives {
            Lives::Any => {}
            Lives::WithReplicas => world.add_replicas(),
            Lives::WithAddresses => world.is_restless = true,
            Lives::OfTheLibrary => {
                world.is_library = true;
                let (slow, slowest) = (100, world.dice.one_of(&[200_000, 2_000_000]));
                world.conditions =
                    NetworkConditions { slow, slowest, breaks: world.dice.one_of(&[50, 200]) };
            }
            Lives::WithJobs => {
                world.has_jobs = true;
                world.is_library = world.dice.chance(500);
            }
            Lives::Evicting => world.evicts = true,
            Lives::UnderAttack => world.add_an_attack(),
            Lives::LosingDisks => world.lose_disks(),
            Lives::InOrder => world.put_on_a_map(Kind::OneGate),
            Lives::AtAnyGate if seed.is_multiple_of(3) => {
                world.put_on_a_map(Kind::Deaf);
                for _ in majority..world.servers.len() {
                    let place = world.dice.below(world.servers.len());
                    world.servers[place].is_deaf = true;
                }
            }
            Lives::AtAnyGate => {
                world.put_on_a_map(Kind::AnyGate);
                if world.dice.chance(500) {
                    let away = world.servers.iter_mut().skip(majority);
                    away.for_each(|server| server.stays_away = true);
                } else {
                    world.hide_nodes(majority);
                }
            }
        }
        world
    }

    fn lose_disks(&mut self) {
        let World { dice, servers, processes, .. } = self;
        for server in servers {
            (server.loses_disk, server.max_ttl) = (true, LOST);
            server.clock.set(dice, HALF_A_MINUTE);
        }
        processes.iter_mut().for_each(|process| process.clock.set(dice, HALF_A_MINUTE));
    }

    /// Each process reaches a majority, and perhaps no more.
    fn hide_nodes(&mut self, majority: usize) {
        let World { dice, processes, servers, .. } = self;
        for process in processes {
            for _ in majority..servers.len() {
                process.blind_to[dice.below(servers.len())] = true;
            }
        }
    }

    fn put_on_a_map(&mut self, kind: Kind) {
        let World { dice, processes, servers, keys, .. } = self;
        keys.truncate(1);
        servers.iter_mut().for_each(|server| server.max_ttl = Millis(u64::MAX));
        servers.iter_mut().for_each(|server| server.clock.set(dice, MINUTE));
        processes.iter_mut().for_each(|process| process.clock.set(dice, MINUTE));
        self.map = Some(Map::new(dice, processes.len(), servers.len(), kind));
    }
}

const MINUTE: u64 = 60_000_000;
const HALF_A_MINUTE: u64 = 30_000_000;
