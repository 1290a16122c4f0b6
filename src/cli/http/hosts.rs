//! The Host headers that are accepted.

use std::net::IpAddr;

use hyper::header::HOST;
use hyper::{HeaderMap, Uri};

/// The accepted host names.
pub struct Hosts {
    names: Vec<String>,
    /// True if only this machine can reach the server, so that it shows the page.
    pub is_local: bool,
}

impl Hosts {
    pub fn new(names: Vec<String>, is_local: bool) -> Hosts {
        Hosts { names, is_local }
    }

    /// True if the request is for this server. A page of another site can point its own name to this address: a
    /// browser then sends that name.
    pub fn allow(&self, uri: &Uri, headers: &HeaderMap) -> bool {
        let mut hosts = headers.get_all(HOST).iter();
        let host = hosts.next().and_then(|host| host.to_str().ok());
        let only = hosts.next().is_none();
        let asked = uri.authority().map(|authority| authority.as_str()).or(host);
        only && asked.is_some_and(|asked| self.know(name(asked)))
    }

    fn know(&self, name: &str) -> bool {
        let literal = name.trim_start_matches('[').trim_end_matches(']');
        literal.parse::<IpAddr>().is_ok()
            || name.eq_ignore_ascii_case("localhost")
            || self.names.iter().any(|own| own.eq_ignore_ascii_case(name))
    }
}

/// A host without its port.
fn name(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) => name,
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_cannot_be_the_name_of_another_site() {
        let hosts = Hosts::new(vec!["locks.example".to_owned()], true);
        let meant = |host: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(HOST, host.parse().unwrap());
            hosts.allow(&Uri::from_static("/metrics"), &headers)
        };
        for host in ["127.0.0.1:9763", "127.0.0.1", "[::1]:9763", "localhost:1", "LOCKS.example:80"]
        {
            assert!(meant(host), "{host}");
        }
        for host in ["evil.example", "evil.example:9763", "localhost.evil.example", "", ":80"] {
            assert!(!meant(host), "{host}");
        }
        assert!(!hosts.allow(&Uri::from_static("/"), &HeaderMap::new()));
        assert!(!hosts.allow(&Uri::from_static("http://evil.example/"), &HeaderMap::new()));
    }

    #[test]
    fn two_names_are_none() {
        let mut headers = HeaderMap::new();
        headers.append(HOST, "localhost".parse().unwrap());
        headers.append(HOST, "evil.example".parse().unwrap());
        assert!(!Hosts::new(Vec::new(), true).allow(&Uri::from_static("/"), &headers));
    }
}
