//! A Redis Cluster of three primaries, and slots that move between them.

use std::ops::{Range, RangeInclusive};
use std::time::{Duration, Instant};

use crate::apart::{Apart, BUS};
use crate::certificates::Certificates;
use crate::kind::Kind;
use crate::server::Server;
use crate::value::Value;
use crate::wait::eventually;

const SLOTS: usize = 16_384;

/// Three nodes that share the slots.
pub struct Cluster {
    /// The nodes, in the order of their slots.
    pub nodes: Vec<Server>,
    /// The network in front of each node, where a test asked for that.
    pub networks: Vec<Apart>,
    /// The end of a URL, after the address, where the cluster speaks TLS.
    tls: Option<String>,
}

impl Cluster {
    /// Starts three nodes, and waits until they are one cluster.
    #[track_caller]
    pub fn start(kind: Kind) -> Cluster {
        let start = || Server::build(kind).cluster().start();
        Cluster::of((0..3).map(|_| start()).collect(), Server::port)
    }

    /// Makes a cluster of three nodes that find each other by these ports.
    #[track_caller]
    pub fn of(nodes: Vec<Server>, port: impl Fn(&Server) -> u16) -> Cluster {
        Cluster::over(Vec::new(), nodes, port)
    }

    /// The same over these networks.
    #[track_caller]
    fn over(networks: Vec<Apart>, nodes: Vec<Server>, port: impl Fn(&Server) -> u16) -> Cluster {
        for (number, node) in nodes.iter().enumerate() {
            let slots = slots_of(number);
            ok(node, &format!("CLUSTER SET-CONFIG-EPOCH {}", number + 1));
            ok(node, &format!("CLUSTER ADDSLOTSRANGE {} {}", slots.start, slots.end - 1));
        }
        let cluster = Cluster { nodes, networks, tls: None };
        let place = |number: usize| {
            let port = port(&cluster.nodes[number]);
            (port, cluster.bus(number).unwrap_or(port + BUS))
        };
        let first = (&cluster.nodes[0], place(0));
        let others = cluster.nodes.iter().enumerate().skip(1);
        acquaint(first, &others.map(|(number, other)| (other, place(number))).collect::<Vec<_>>());
        eventually("three nodes make a cluster", || {
            cluster.nodes.iter().all(|node| {
                let info = node.run("CLUSTER INFO").text();
                info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:3")
            })
        });
        cluster
    }

    /// The URL of the cluster, with these servers as seeds.
    pub fn url(&self, seeds: &[usize]) -> String {
        let hosts = seeds.iter().map(|node| format!("127.0.0.1:{}", self.told(*node)));
        let hosts = hosts.collect::<Vec<_>>().join(",");
        match &self.tls {
            None => format!("redis+cluster://{hosts}"),
            Some(options) => format!("rediss+cluster://{hosts}?{options}"),
        }
    }

    /// The port of a node for others, as the cluster announces it.
    pub fn told(&self, node: usize) -> u16 {
        let network = self.networks.get(node).map(|network| network.front.port());
        network.unwrap_or_else(|| self.nodes[node].port())
    }

    /// A new replica of a node, with all its data, and known to all nodes.
    #[track_caller]
    pub fn replica_of(&self, node: usize) -> Server {
        let replica = Server::build(self.nodes[node].kind()).cluster().start();
        let bus = replica.port() + BUS;
        self.follow(node, replica, bus)
    }

    #[track_caller]
    fn follow(&self, node: usize, replica: Server, bus: u16) -> Server {
        let primary = &self.nodes[node];
        self.introduce(&replica, bus);
        let (id, own) = (self.id(node), replica.run("CLUSTER MYID").text());
        ok(&replica, &format!("CLUSTER REPLICATE {id}"));
        primary.until_streaming_to(&replica);
        eventually("everybody knows whom it follows", || {
            self.nodes.iter().chain([&replica]).all(|one| {
                let nodes = one.run("CLUSTER NODES").text();
                let line = nodes.lines().find(|line| line.starts_with(&own));
                line.is_some_and(|line| line.contains("slave") && line.contains(&id))
            })
        });
        eventually("the cluster serves, as far as it knows", || {
            replica.run("CLUSTER INFO").text().contains("cluster_state:ok")
        });
        replica
    }

    /// Adds a new node without slots, as the last of all. Returns its place.
    #[track_caller]
    pub fn join(&mut self) -> usize {
        // Without this setting it becomes a replica when it has lost its last slot.
        let new = Server::build(self.nodes[0].kind()).cluster();
        let new = new.config("cluster-allow-replica-migration no").start();
        self.introduce(&new, new.port() + BUS);
        self.nodes.push(new);
        eventually("everybody knows the new node, and it knows all slots", || {
            self.nodes.iter().all(|node| {
                let (info, known) = (node.run("CLUSTER INFO").text(), self.nodes.len());
                info.contains("cluster_state:ok")
                    && info.contains(&format!("cluster_known_nodes:{known}"))
            })
        });
        self.nodes.len() - 1
    }

    /// Waits until a new node and all others have met.
    #[track_caller]
    fn introduce(&self, new: &Server, bus: u16) {
        let others = self.nodes.iter().enumerate().map(|(number, other)| {
            (other, (other.port(), self.bus(number).unwrap_or(other.port() + BUS)))
        });
        acquaint((new, (new.port(), bus)), &others.collect::<Vec<_>>());
    }

    /// Removes a node without slots, and stops it.
    #[track_caller]
    pub fn leave(&mut self, node: usize) {
        let id = self.id(node);
        let gone = self.nodes.remove(node);
        self.nodes.iter().for_each(|other| ok(other, &format!("CLUSTER FORGET {id}")));
        drop(gone);
    }

    /// Starts a cluster with a replica for each node: the replicas come after the three.
    #[track_caller]
    pub fn start_with_replicas(kind: Kind) -> Cluster {
        let mut cluster = Cluster::start(kind);
        let replicas: Vec<Server> = (0..3).map(|node| cluster.replica_of(node)).collect();
        cluster.nodes.extend(replicas);
        cluster
    }

    /// The same, with a network in front of each node that a test can change, with TLS or without.
    #[track_caller]
    pub fn start_over_networks(kind: Kind, tls: Option<&Certificates>) -> Cluster {
        let start = |number| Apart::in_a_cluster(number, Server::build(kind), tls);
        let (networks, nodes) = (0..3).map(start).unzip();
        let mut cluster = Cluster::over(networks, nodes, Server::port);
        for node in 0..3 {
            let (network, replica) = start(node + 3);
            let replica = cluster.follow(node, replica, network.bus.port());
            cluster.nodes.push(replica);
            cluster.networks.push(network);
        }
        cluster.tls =
            tls.map(|certificates| format!("ca={}", certificates.path("ca.pem").display()));
        cluster
    }

    /// The bus port of a node for others, if that is over a network.
    fn bus(&self, node: usize) -> Option<u16> {
        self.networks.get(node).map(|network| network.bus.port())
    }

    /// The owner of a slot, in a node's view.
    #[track_caller]
    pub fn owner(&self, slot: usize, asked: usize) -> Option<usize> {
        let owner = owner_of(&self.nodes[asked], slot)?;
        // The cluster announces different ports to clients with TLS and without.
        let is = |node: &usize| [self.told(*node), self.nodes[*node].port()].contains(&owner);
        (0..self.nodes.len()).find(is)
    }

    /// A key that belongs to the slots of this node, made from a name.
    #[track_caller]
    pub fn key(&self, node: usize, name: &str) -> String {
        let names = (0..).map(|number| format!("{name}-{number}"));
        let mut keys = names.filter(|key| slots_of(node).contains(&self.slot(key)));
        keys.next().unwrap_or_default()
    }

    /// The slot of a key.
    #[track_caller]
    pub fn slot(&self, key: &str) -> usize {
        self.nodes[0].run(&format!("CLUSTER KEYSLOT {key}")).int() as usize
    }

    /// The first half of a slot's move: both nodes are told of it, the keys are where they were.
    #[track_caller]
    pub fn open(&self, slot: usize, from: usize, to: usize) {
        let (source, target) = (self.id(from), self.id(to));
        ok(&self.nodes[to], &format!("CLUSTER SETSLOT {slot} IMPORTING {source}"));
        ok(&self.nodes[from], &format!("CLUSTER SETSLOT {slot} MIGRATING {target}"));
    }

    /// Moves all keys of a slot that is open.
    #[track_caller]
    pub fn move_keys(&self, slot: usize, from: usize, to: usize) {
        let port = self.told(to);
        let keys = self.nodes[from].run(&format!("CLUSTER GETKEYSINSLOT {slot} 1000"));
        for key in keys.items() {
            let key = key.text();
            let answer = self.nodes[from].run(&format!("MIGRATE 127.0.0.1 {port} {key} 0 5000"));
            // The lock may have been given back meanwhile.
            assert!(["OK", "NOKEY"].contains(&&*answer.text()), "{key}: {answer:?}");
        }
    }

    /// The last half of a slot's move: it belongs to its new node, and every node learns it.
    ///
    /// Other nodes learn it from the new owner, as in a real cluster. Then they have no older message of the
    /// new owner left to read. An older message does not claim the slot yet, and a Valkey that imports the
    /// slot the next moment would believe from it that it has all of it.
    #[track_caller]
    pub fn close(&self, slot: usize, from: usize, to: usize) {
        let owner = self.id(to);
        for node in [to, from] {
            ok(&self.nodes[node], &format!("CLUSTER SETSLOT {slot} NODE {owner}"));
        }
        eventually("everybody has heard of the new owner", || {
            (0..self.nodes.len()).all(|node| self.owner(slot, node) == Some(to))
        });
    }

    /// Moves a slot with its keys.
    #[track_caller]
    pub fn move_slot(&self, slot: usize, from: usize, to: usize) {
        self.open(slot, from, to);
        self.move_keys(slot, from, to);
        self.close(slot, from, to);
    }

    /// Begins to migrate slots as a whole, for Valkey 9 and Redis 8.4.
    #[track_caller]
    pub fn migrate(&self, slots: RangeInclusive<usize>, from: usize, to: usize) {
        let (first, last) = (slots.start(), slots.end());
        if self.is_redis() {
            // Where keys were removed in the background, that may still be under way.
            eventually("the migration begins", || {
                let begun = self.nodes[to].run(&format!("CLUSTER MIGRATION IMPORT {first} {last}"));
                !begun.is_error()
            });
        } else {
            let target = self.id(to);
            let words = format!("CLUSTER MIGRATESLOTS SLOTSRANGE {first} {last} NODE {target}");
            ok(&self.nodes[from], &words);
        }
    }

    /// Waits until the last migration at a node has reached this state.
    #[track_caller]
    pub fn until_migration_is(&self, state: Migration, node: usize) {
        eventually(&format!("the migration is {state:?}"), || {
            self.migration(node).is_some_and(|now| state.names().contains(&&*now))
        });
    }

    /// Waits until all data of a held migration has arrived.
    #[track_caller]
    pub fn until_caught_up(&self, from: usize, to: usize) {
        // On Redis, the other one is done when it has sent all.
        self.until_migration_is(Migration::Caught, if self.is_redis() { to } else { from });
    }

    /// The state of the last migration, in a node's report.
    #[track_caller]
    pub fn migration(&self, node: usize) -> Option<String> {
        let words = if self.is_redis() { "MIGRATION STATUS ALL" } else { "GETSLOTMIGRATIONS" };
        let all = self.nodes[node].run(&format!("CLUSTER {words}"));
        all.items().first().map(|last| last.at("state").text())
    }

    /// Cancels a migration. On Redis, the target of the slots would try again.
    #[track_caller]
    pub fn cancel_migrations(&self, from: usize, to: usize) {
        if self.is_redis() {
            assert_eq!(self.nodes[to].run("CLUSTER MIGRATION CANCEL ALL").int(), 1);
        } else {
            ok(&self.nodes[from], "CLUSTER CANCELSLOTMIGRATIONS");
        }
    }

    /// Asks for a migration of a slot. The servers may refuse.
    #[track_caller]
    pub fn try_to_migrate(&self, slot: usize, from: usize, to: usize) {
        if self.is_redis() {
            self.nodes[to].run(&format!("CLUSTER MIGRATION IMPORT {slot} {slot}"));
        } else {
            let words =
                format!("CLUSTER MIGRATESLOTS SLOTSRANGE {slot} {slot} NODE {}", self.id(to));
            self.nodes[from].run(&words);
        }
    }

    /// Cancels a migration, if it is still under way.
    #[track_caller]
    pub fn try_to_cancel(&self, from: usize, to: usize) {
        if self.is_redis() {
            self.nodes[to].run("CLUSTER MIGRATION CANCEL ALL");
        } else {
            self.nodes[from].run("CLUSTER CANCELSLOTMIGRATIONS");
        }
    }

    /// True if no server sends a slot, or gets one. Redis tries an import that has failed again.
    #[track_caller]
    pub fn has_no_migrations(&self) -> bool {
        let is_over = |job: &Value| match &*job.at("state").text() {
            "success" | "completed" | "cancelled" | "canceled" => true,
            "failed" => !self.is_redis() || job.at("operation").text() == "migrate",
            _ => false,
        };
        let all = if self.is_redis() { "MIGRATION STATUS ALL" } else { "GETSLOTMIGRATIONS" };
        let mut nodes = self.nodes.iter();
        nodes.all(|node| node.run(&format!("CLUSTER {all}")).items().iter().all(is_over))
    }

    /// Lets migrations from this node come as far as the last pause, and no farther.
    #[track_caller]
    pub fn hold_migrations(&self, from: usize) {
        ok(
            &self.nodes[from],
            if self.is_redis() {
                "DEBUG ASM-FAILPOINT migrate-main-channel handoff-prep"
            } else {
                "DEBUG SLOTMIGRATION PREVENT-PAUSE 1"
            },
        );
    }

    /// Lets them go on.
    #[track_caller]
    pub fn let_migrations_go(&self, from: usize) {
        if self.is_redis() {
            let cleared = self.nodes[from].client().run_args(&["DEBUG", "ASM-FAILPOINT", "", ""]);
            assert_eq!(cleared, Value::Simple("OK".into()));
        } else {
            ok(&self.nodes[from], "DEBUG SLOTMIGRATION PREVENT-PAUSE 0");
        }
    }

    fn is_redis(&self) -> bool {
        !self.nodes[0].kind().is_valkey()
    }

    /// Migrates slots as a whole, and waits until all nodes have learned of it.
    #[track_caller]
    pub fn migrate_to_the_end(&self, slots: RangeInclusive<usize>, from: usize, to: usize) {
        let first = *slots.start();
        self.migrate(slots, from, to);
        self.until_migration_is(Migration::Done, from);
        eventually("everybody has heard of the new owner", || {
            (0..self.nodes.len()).all(|node| self.owner(first, node) == Some(to))
        });
    }

    fn id(&self, node: usize) -> String {
        self.nodes[node].run("CLUSTER MYID").text()
    }
}

/// The progress of a migration of slots as a whole.
#[derive(Clone, Copy, Debug)]
pub enum Migration {
    /// All data has arrived, and the last pause has not begun.
    Caught,
    /// The slots have their new node.
    Done,
    /// The slots stay, because something failed.
    Failed,
    /// The slots stay, because the migration was cancelled.
    Cancelled,
}

impl Migration {
    /// The servers' words for this state.
    fn names(self) -> &'static [&'static str] {
        match self {
            Migration::Caught => &["waiting-to-pause", "wait-stream-eof"],
            Migration::Done => &["success", "completed"],
            // Redis cancels an import for another one that is wanted.
            Migration::Failed => &["failed", "canceled"],
            Migration::Cancelled => &["cancelled", "canceled"],
        }
    }
}

/// A node, and its ports for others: its own, and that of the bus.
type Place<'s> = (&'s Server, (u16, u16));

/// Waits until a node and all others have met. They meet once more now and then: one of the nodes, or both,
/// gives up a greeting that takes longer than the node time-out. Not more often: servers in many greetings at
/// once take each other for members of the wrong shard.
#[track_caller]
fn acquaint(new: Place<'_>, others: &[Place<'_>]) {
    let mut again = Instant::now();
    eventually("a node and the others know each other", || {
        let meets = Instant::now() >= again;
        if meets {
            again = Instant::now() + MEET_AGAIN;
        }
        others.iter().fold(true, |all, other| all & know_each_other(*other, new, meets))
    });
}

fn know_each_other(one: Place<'_>, other: Place<'_>, meets: bool) -> bool {
    let knows = |one: Place<'_>, other: Place<'_>| {
        let id = other.0.run("CLUSTER MYID").text();
        one.0.run("CLUSTER NODES").text().contains(&id)
    };
    let (there, back) = (knows(one, other), knows(other, one));
    let meet = |one: Place<'_>, (_, (port, bus)): Place<'_>| {
        ok(one.0, &format!("CLUSTER MEET 127.0.0.1 {port} {bus}"));
    };
    match (there, back) {
        (false, _) if meets => meet(one, other),
        (true, false) if meets => meet(other, one),
        _ => {}
    }
    there && back
}

/// Longer than a greeting may take.
const MEET_AGAIN: Duration = Duration::from_secs(3);

/// The port of the owner of a slot, in this node's view.
fn owner_of(node: &Server, slot: usize) -> Option<u16> {
    let ranges = node.run("CLUSTER SLOTS");
    let here = |range: &&Value| {
        let [first, last, ..] = range.items() else { return false };
        (first.int()..=last.int()).contains(&(slot as i64))
    };
    let owner = ranges.items().iter().find(here)?.items().get(2)?;
    u16::try_from(owner.items().get(1)?.int()).ok()
}

/// A node's first slots.
pub fn slots_of(node: usize) -> Range<usize> {
    node * SLOTS / 3..(node + 1) * SLOTS / 3
}

#[track_caller]
fn ok(node: &Server, words: &str) {
    assert_eq!(node.run(words), Value::Simple("OK".into()), "{words}");
}
