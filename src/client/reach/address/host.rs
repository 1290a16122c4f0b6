//! A server's host and port.

use std::fmt;

use redis::ConnectionAddr;

/// A host name or an IP address, and a port.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Host {
    /// Host name or IP address; an IPv6 address has no brackets.
    pub(crate) name: String,
    pub(crate) port: u16,
}

impl Host {
    pub(crate) fn new(name: &str, port: u16) -> Host {
        let name = name.trim_start_matches('[').trim_end_matches(']');
        Host { name: name.to_owned(), port }
    }

    /// The host that a server announces; `None` if it cannot be an address.
    pub(crate) fn told(name: &str, port: u16) -> Option<Host> {
        let host = Host::new(name, port);
        let can_be = |c: char| !c.is_whitespace() && !c.is_control() && !"@/?#[],".contains(c);
        let is_name = (1..=LONGEST).contains(&host.name.len()) && host.name.chars().all(can_be);
        (is_name && port != 0).then_some(host)
    }

    /// Reads `host`, `host:port`, `[::1]` or `[::1]:port`.
    pub(crate) fn read(text: &str, default_port: u16) -> Option<Host> {
        let (name, port) = match text.strip_prefix('[') {
            Some(inner) => {
                let (name, after) = inner.split_once(']')?;
                let is_address = name.parse::<std::net::Ipv6Addr>().is_ok();
                (name, if is_address { after } else { return None })
            }
            None => text.find(':').map_or((text, ""), |at| text.split_at(at)),
        };
        let port = match port.strip_prefix(':') {
            None if port.is_empty() => default_port,
            None => return None,
            Some(number) => number.parse().ok().filter(|port| *port != 0)?,
        };
        let is_plain = |c: char| !c.is_whitespace() && !c.is_control() && !"@:/?#[]%,".contains(c);
        let is_name = text.starts_with('[') || (!name.is_empty() && name.chars().all(is_plain));
        is_name.then(|| Host { name: name.to_owned(), port })
    }

    /// The address to connect to.
    pub(crate) fn addr(&self, tls: bool) -> ConnectionAddr {
        let (host, port) = (self.name.clone(), self.port);
        match tls {
            true => ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None },
            false => ConnectionAddr::Tcp(host, port),
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name.contains(':') {
            true => write!(f, "[{}]:{}", self.name, self.port),
            false => write!(f, "{}:{}", self.name, self.port),
        }
    }
}

/// Longest name in DNS.
const LONGEST: usize = 253;

/// The hosts, separated by commas.
pub(crate) fn joined(hosts: &[Host]) -> String {
    hosts.iter().map(Host::to_string).collect::<Vec<_>>().join(",")
}
