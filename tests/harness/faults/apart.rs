//! A server that can be isolated, in both directions. Clients, other servers and Sentinels reach it over
//! networks that the test can change. Its own requests to others go the same way: it has an address of its
//! own for that.

use std::net::{IpAddr, Ipv4Addr};

use crate::builder::Builder;
use crate::certificates::Certificates;
use crate::proxy::Proxy;
use crate::server::Server;

/// The distance from a server's port to the port of its cluster bus.
pub const BUS: u16 = 10_000;

/// The networks of one server.
pub struct Apart {
    /// The network over which clients, replicas and Sentinels reach it.
    pub front: Proxy,
    /// The network between it and other servers of a cluster.
    pub bus: Proxy,
    /// Its own address, towards others.
    pub from: IpAddr,
}

impl Apart {
    /// The networks of the server with this number.
    fn new(number: usize) -> Apart {
        let last = u8::try_from(number + 1).expect("there are a few");
        let from = IpAddr::V4(Ipv4Addr::new(127, 0, 1, last));
        Apart { front: Proxy::start(0), bus: Proxy::start(0), from }
    }

    /// Starts a server of a cluster behind such networks.
    #[track_caller]
    pub fn in_a_cluster(
        number: usize,
        builder: Builder,
        tls: Option<&Certificates>,
    ) -> (Apart, Server) {
        let apart = Apart::new(number);
        let (front, bus) = (apart.front.port(), apart.bus.port());
        let kind = if tls.is_some() { "-tls" } else { "" };
        let builder = builder
            .cluster()
            .config("cluster-announce-ip 127.0.0.1")
            .config(&format!("cluster-announce{kind}-port {front}"))
            .config(&format!("cluster-announce-bus-port {bus}"));
        apart.start(if tls.is_some() { builder.config("tls-cluster yes") } else { builder }, tls)
    }

    /// Starts a server behind such networks that Sentinels watch.
    #[track_caller]
    pub fn watched(number: usize, builder: Builder, tls: Option<&Certificates>) -> (Apart, Server) {
        let apart = Apart::new(number);
        let announced = format!("replica-announce-port {}", apart.front.port());
        apart.start(builder.config(&announced), tls)
    }

    fn start(self, builder: Builder, tls: Option<&Certificates>) -> (Apart, Server) {
        let builder = builder
            .config(&format!("bind-source-addr {}", self.from))
            .config("replica-announce-ip 127.0.0.1")
            .config("repl-timeout 5")
            .config("repl-ping-replica-period 1");
        let (builder, port) = match tls {
            None => (builder, None),
            Some(certificates) => {
                let (builder, port) =
                    certificates.added_to(builder.config("tls-replication yes"), "no");
                (builder, Some(port))
            }
        };
        let server = builder.start();
        let port = port.unwrap_or(server.port());
        self.front.lead_to(port);
        // With TLS, the bus belongs to the TLS port.
        self.bus.lead_to(port + BUS);
        (self, server)
    }

    /// Isolates one server from all others.
    pub fn part(all: &[Apart], one: usize) {
        all[one].front.swallow();
        all[one].bus.swallow();
        for (_, other) in all.iter().enumerate().filter(|(number, _)| *number != one) {
            other.front.swallow_from(all[one].from);
            other.bus.swallow_from(all[one].from);
        }
    }

    /// Ends the isolation.
    pub fn join(all: &[Apart]) {
        for apart in all {
            apart.front.pass();
            apart.bus.pass();
        }
    }
}
