//! A primary with replicas, and the Sentinels that watch it: one node for the library.

use std::time::{Duration, Instant};

use crate::apart::Apart;
use crate::certificates::Certificates;
use crate::kind::Kind;
use crate::proxy::Proxy;
use crate::sentinel::{DOWN_AFTER, NAME, Sentinel};
use crate::server::Server;
use crate::wait::eventually;

/// A Sentinel that was paused for two seconds, with the machine, does nothing for half a minute. By then its
/// replicas have had no primary for more than ten times `down-after`, and it promotes none of them, ever.
const TILT: Duration = Duration::from_secs(45);

/// A primary, its replicas, and three Sentinels. Two of them decide.
pub struct Watched {
    /// The servers. The first is the primary in the beginning.
    pub servers: Vec<Server>,
    /// The Sentinels.
    pub sentinels: Vec<Sentinel>,
    /// The network in front of each server, where a test asked for that.
    pub networks: Vec<Apart>,
    /// The Sentinels' ports for TLS, if there are any, and the end of the URL.
    tls: Option<(Vec<u16>, String)>,
}

impl Watched {
    /// Starts a primary with this many replicas.
    #[track_caller]
    pub fn start(kind: Kind, replicas: usize) -> Watched {
        let primary = Server::start(kind);
        let mut servers = Vec::new();
        for _ in 0..replicas {
            let replica = Server::build(kind).replica_of(&primary).start();
            primary.until_streaming_to(&replica);
            servers.push(replica);
        }
        let sentinels = Sentinel::start_some(&primary, replicas, 3);
        servers.insert(0, primary);
        Watched { servers, sentinels, networks: Vec::new(), tls: None }
    }

    /// Starts a primary with two replicas, each behind networks that a test can change, with TLS or without.
    #[track_caller]
    pub fn start_over_networks(kind: Kind, tls: Option<&Certificates>) -> Watched {
        let (network, primary) = Apart::watched(0, Server::build(kind), tls);
        let port = network.front.port();
        let (mut servers, mut networks) = (vec![primary], vec![network]);
        for number in 1..3 {
            let follows = Server::build(kind).config(&format!("replicaof 127.0.0.1 {port}"));
            let (network, replica) = Apart::watched(number, follows, tls);
            servers[0].until_streaming_to(&replica);
            servers.push(replica);
            networks.push(network);
        }
        let mut ports = Vec::new();
        let mut watch = || {
            let lines = tls.map(|certificates| certificates.lines("no"));
            ports.extend(lines.iter().map(|(port, _)| *port));
            let lines = lines.map_or_else(Vec::new, |(_, lines)| lines.to_vec());
            let replication = tls.map(|_| "tls-replication yes".to_owned());
            let lines: Vec<String> = lines.into_iter().chain(replication).collect();
            Sentinel::spawn_with(kind, port, 2, &lines)
        };
        let sentinels: Vec<Sentinel> = (0..3).map(|_| watch()).collect();
        eventually("Sentinels know the primary, its replicas and each other", || {
            sentinels.iter().all(|one| one.knows(2, 2) == Some(true))
        });
        let tls = tls
            .map(|certificates| (ports, format!("ca={}", certificates.path("ca.pem").display())));
        Watched { servers, sentinels, networks, tls }
    }

    /// Starts a primary with one replica, and the replica's network.
    #[track_caller]
    pub fn start_over_a_network(kind: Kind) -> (Watched, Proxy) {
        let primary = Server::start(kind);
        let network = Proxy::start(primary.port());
        let follows = format!("replicaof 127.0.0.1 {}", network.port());
        let replica = Server::build(kind).config(&follows).start();
        primary.until_streaming_to(&replica);
        let sentinels = Sentinel::start_some(&primary, 1, 3);
        let servers = vec![primary, replica];
        (Watched { servers, sentinels, networks: Vec::new(), tls: None }, network)
    }

    /// The URL of the primary, by its Sentinels.
    pub fn url(&self) -> String {
        let plain: Vec<u16> = self.sentinels.iter().map(Sentinel::port).collect();
        let (scheme, ports, options) = match &self.tls {
            None => ("redis", &plain, String::new()),
            Some((ports, options)) => ("rediss", ports, format!("?{options}")),
        };
        let hosts: Vec<String> = ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
        format!("{scheme}+sentinel://{}/{NAME}{options}", hosts.join(","))
    }

    /// The port of a server for others, as Sentinels announce it.
    pub fn told(&self, server: usize) -> u16 {
        let network = self.networks.get(server).map(|network| network.front.port());
        network.unwrap_or_else(|| self.servers[server].port())
    }

    /// The number of the server at this port.
    #[track_caller]
    pub fn at(&self, port: u16) -> usize {
        let place = (0..self.servers.len()).find(|server| self.told(*server) == port);
        place.expect("it is one of them")
    }

    /// Waits until all Sentinels that answer name another server as the primary, and returns its place.
    #[track_caller]
    pub fn promoted(&self, before: usize, sentinels: &[usize]) -> usize {
        let before = self.told(before);
        let first = &self.sentinels[sentinels[0]];
        let (begun, mut helped) = (Instant::now(), false);
        sentinels.iter().for_each(|one| self.sentinels[*one].take_for_dead_after(DOWN_AFTER));
        eventually("another server is the primary", || {
            if begun.elapsed() > TILT && !helped {
                helped = true;
                sentinels.iter().for_each(|one| self.sentinels[*one].take_for_dead_after(20_000));
            }
            let now = first.primary();
            now != before && sentinels.iter().all(|one| self.sentinels[*one].primary() == now)
        });
        if helped {
            sentinels.iter().for_each(|one| self.sentinels[*one].take_for_dead_after(DOWN_AFTER));
        }
        let place = self.at(first.primary());
        // Sentinels close all connections to a server when they change its role.
        self.servers.iter().for_each(Server::drop_own_client);
        eventually("it knows that it is", || {
            self.servers[place].info("replication")["role"] == "master"
        });
        place
    }

    /// Waits until a replica has everything.
    #[track_caller]
    pub fn until_followed(&self, primary: usize) {
        self.servers.iter().for_each(Server::drop_own_client);
        for (place, replica) in self.servers.iter().enumerate() {
            if place != primary {
                self.servers[primary].until_followed_by(replica);
            }
        }
    }
}
