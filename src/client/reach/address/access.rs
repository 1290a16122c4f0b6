//! Access to the servers of a node: login, TLS, and mapped addresses.

use std::sync::Arc;
use std::time::Duration;

use redis::io::tcp::socket2::TcpKeepalive;
use redis::{
    ConnectionAddr, IntoConnectionInfo, ProtocolVersion, RedisConnectionInfo, RedisResult,
};

use super::host::Host;
use crate::reach::endpoint::Endpoint;
use crate::reach::tls::Tls;

/// Settings that all servers of a node share.
#[derive(Clone)]
pub(crate) struct Access {
    pub(crate) login: Login,
    pub(crate) db: i64,
    pub(crate) tls: Option<Arc<Tls>>,
    pub(crate) map: Map,
}

/// User and password.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Login {
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
}

/// Addresses to use in place of those that servers announce.
#[derive(Clone, Debug, Default)]
pub(crate) struct Map(Vec<(Told, Host)>);

/// An announced host: with a port, or with any.
type Told = (String, Option<u16>);

impl Access {
    /// The endpoint of a server.
    pub(crate) fn endpoint(&self, host: &Host) -> RedisResult<Endpoint> {
        self.at(host.addr(self.uses_tls()))
    }

    pub(super) fn at(&self, addr: ConnectionAddr) -> RedisResult<Endpoint> {
        let info = addr.into_connection_info()?.set_redis_settings(self.settings());
        // Nagle's algorithm would hold back requests while earlier ones are unanswered. Without keep-alive
        // probes, a waiting request's broken connection would go unnoticed.
        let probes = TcpKeepalive::new().with_time(PROBE_AFTER).with_interval(PROBE_EVERY);
        let settings = info.tcp_settings().clone().set_nodelay(true).set_keepalive(probes);
        Ok(Endpoint::new(info.set_tcp_settings(settings), self.tls.clone()))
    }

    pub(crate) fn uses_tls(&self) -> bool {
        self.tls.is_some()
    }

    fn settings(&self) -> RedisConnectionInfo {
        let settings =
            RedisConnectionInfo::default().set_db(self.db).set_protocol(ProtocolVersion::RESP3);
        let mut settings = settings.set_lib_name("dlock", env!("CARGO_PKG_VERSION"));
        if let Some(user) = &self.login.user {
            settings = settings.set_username(user);
        }
        if let Some(password) = &self.login.password {
            settings = settings.set_password(password);
        }
        settings
    }
}

impl std::fmt::Debug for Access {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Access").field("tls", &self.uses_tls()).finish_non_exhaustive()
    }
}

impl Map {
    /// Adds `told:port=reached:port`, or `told=reached` for all ports. Returns false if the text is neither.
    pub(super) fn add(&mut self, text: &str) -> bool {
        let Some((told, reached)) = text.split_once('=') else { return false };
        let (Some(told), Some(reached)) = (Host::read(told, 0), Host::read(reached, 0)) else {
            return false;
        };
        let port = (told.port != 0).then_some(told.port);
        let agrees = port.is_some() || reached.port == 0;
        if agrees {
            self.0.push(((told.name, port), reached));
        }
        agrees
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The address to use for an announced server.
    pub(crate) fn reached(&self, told: Host) -> Host {
        let is =
            |(name, port): &Told| *name == told.name && port.is_none_or(|port| port == told.port);
        let Some((_, reached)) = self.0.iter().find(|(entry, _)| is(entry)) else { return told };
        let port = if reached.port == 0 { told.port } else { reached.port };
        Host { name: reached.name.clone(), port }
    }
}

/// An idle connection is probed after this time, and then at this interval.
const PROBE_AFTER: Duration = Duration::from_secs(15);
const PROBE_EVERY: Duration = Duration::from_secs(5);
