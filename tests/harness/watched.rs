//! A primary with replicas, and the Sentinels that watch it: one node for the library.

use std::time::{Duration, Instant};

use crate::kind::Kind;
use crate::proxy::Proxy;
use crate::sentinel::{DOWN_AFTER, NAME, Sentinel};
use crate::server::Server;
use crate::wait::eventually;

/// A Sentinel that stood still for two seconds, with the machine, does nothing for half a minute. By then its
/// replicas have had no primary for more than ten times `down-after`, and it promotes none of them, ever.
const TILT: Duration = Duration::from_secs(45);

/// A primary, its replicas, and three Sentinels of which two decide.
pub struct Watched {
    /// The servers, of which the first is the primary in the beginning.
    pub servers: Vec<Server>,
    /// The Sentinels.
    pub sentinels: Vec<Sentinel>,
}

impl Watched {
    /// With so many replicas.
    #[track_caller]
    pub fn start(kind: Kind, replicas: usize) -> Watched {
        // Without a file in between it would take a replica a second to say that it is ready.
        let build = || Server::build(kind).config("repl-diskless-sync no");
        let primary = build().start();
        let mut servers = Vec::new();
        for _ in 0..replicas {
            let replica = build().replica_of(&primary).start();
            primary.until_streaming_to(&replica);
            servers.push(replica);
        }
        let sentinels = Sentinel::start_some(&primary, replicas, 3);
        servers.insert(0, primary);
        Watched { servers, sentinels }
    }

    /// With one replica, and the network over which that follows the primary.
    #[track_caller]
    pub fn start_over_a_network(kind: Kind) -> (Watched, Proxy) {
        let primary = Server::build(kind).config("repl-diskless-sync no").start();
        let network = Proxy::start(primary.port());
        let follows = format!("replicaof 127.0.0.1 {}", network.port());
        let replica = Server::build(kind).config(&follows).start();
        primary.until_streaming_to(&replica);
        let sentinels = Sentinel::start_some(&primary, 1, 3);
        (Watched { servers: vec![primary, replica], sentinels }, network)
    }

    /// How clients find it.
    pub fn url(&self) -> String {
        let hosts = self.sentinels.iter().map(|one| format!("127.0.0.1:{}", one.port()));
        format!("redis+sentinel://{}/{NAME}", hosts.collect::<Vec<_>>().join(","))
    }

    /// Waits until all Sentinels that answer say that another server is the primary, and gives its
    /// place.
    #[track_caller]
    pub fn promoted(&self, before: usize, sentinels: &[usize]) -> usize {
        let before = self.servers[before].port();
        let first = &self.sentinels[sentinels[0]];
        let (begun, mut helped) = (Instant::now(), false);
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
        let now = first.primary();
        let place = self.servers.iter().position(|server| server.port() == now);
        let place = place.expect("it is one of them");
        // Sentinels close all connections to a server whose role they change.
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
