//! Addresses of nodes: a node is a server, a primary that Sentinels watch, or a Redis Cluster.
//!
//! [`list`]: splits a list. [`host`]: a server's host and port. [`options`]: the part after the question
//! mark. [`access`]: login, TLS and mapped addresses. [`servers`]: the present primaries; [`stand_by`]: their
//! replicas.

pub(crate) mod access;
pub(crate) mod host;
mod list;
mod options;
pub(crate) mod servers;
pub(crate) mod stand_by;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use redis::ConnectionAddr;
use url::Url;

use crate::reach::endpoint::Endpoint;
use crate::report::error::Error;
use access::Access;
use host::Host;
pub(crate) use list::read_all;
use options::Options;

/// The address of one node, for programs that talk to single nodes: a [`Client`](crate::Client) needs a
/// majority.
#[derive(Clone, Debug)]
pub struct Address {
    pub(crate) name: String,
    pub(crate) place: Place,
}

/// Destination of an address.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    Server(Endpoint),
    Sentinel(Watched),
    Cluster(Seeds),
}

/// A primary that Sentinels watch.
#[derive(Clone, Debug)]
pub(crate) struct Watched {
    pub(crate) sentinels: Vec<Host>,
    /// Name of the primary among its Sentinels.
    pub(crate) primary: String,
    pub(crate) servers: Access,
    /// Access to the Sentinels themselves.
    pub(crate) access: Access,
}

/// Some servers of a cluster, which name the others.
#[derive(Clone, Debug)]
pub(crate) struct Seeds {
    pub(crate) hosts: Vec<Host>,
    pub(crate) servers: Access,
}

impl Address {
    /// Reads a URL, as [`Client::connect`](crate::Client::connect) does.
    ///
    /// # Errors
    /// [`Error::Usage`] explains what is wrong with it, without secrets.
    pub fn read(url: &str) -> Result<Address, Error> {
        read(url)
    }

    /// The address as it is shown: without user, password and options.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// True if it is a Redis Cluster, where each key is at one of the servers.
    #[must_use]
    pub fn is_cluster(&self) -> bool {
        matches!(self.place, Place::Cluster(_))
    }
}

/// Reads one address.
pub(crate) fn read(text: &str) -> Result<Address, Error> {
    if text.is_empty() {
        return Err(Error::Usage(AN_EMPTY_ONE.to_owned()));
    }
    let shown = without_secrets(text);
    let is_host = !text.contains("//") && !text.starts_with('/') && !text.starts_with("unix:/");
    if is_host && text.contains('@') {
        return usage(&shown, A_LOGIN_ALONE);
    }
    let text = &*url(text);
    let (scheme, rest) = text.split_once("://").unwrap_or_default();
    let tls = scheme.starts_with("rediss");
    match scheme {
        "redis" | "rediss" | "unix" => server(text, &shown, scheme),
        "redis+sentinel" | "rediss+sentinel" => sentinel(rest, &shown, tls),
        "redis+cluster" | "rediss+cluster" => cluster(rest, &shown, tls),
        _ => usage(&shown, &format!("does not begin with {SCHEMES}")),
    }
}

/// Reads the address of one server.
fn server(text: &str, shown: &str, scheme: &str) -> Result<Address, Error> {
    let place = shown.split("://").nth(1).unwrap_or_default();
    if scheme != "unix" && (place.is_empty() || place.starts_with('/')) {
        return usage(shown, "names no host");
    }
    let Some(url) = redis::parse_redis_url(text) else {
        return usage(shown, NOT_UNDERSTOOD);
    };
    let options = Options::read(shown, &url)?;
    options.refuse_more_than_one_server(shown)?;
    let (addr, name, db) = match scheme {
        "unix" => unix(shown, &url, &options)?,
        _ => tcp(shown, &url, scheme == "rediss", &options)?,
    };
    let access = options.access(shown, &url, scheme == "rediss", db)?;
    match access.at(addr) {
        Ok(endpoint) => Ok(Address { name, place: Place::Server(endpoint) }),
        Err(error) => usage(shown, &format!("cannot be used: {error}")),
    }
}

/// `user:password@s1:26379,s2:26379/mymaster/0?…`
fn sentinel(rest: &str, shown: &str, tls: bool) -> Result<Address, Error> {
    let (hosts, url) = hosts_and_rest(rest, shown, SENTINEL_PORT)?;
    let options = Options::read(shown, &url)?;
    let path = url.path().trim_matches('/');
    let (primary, db) = path.split_once('/').unwrap_or((path, ""));
    if primary.is_empty() {
        return usage(
            shown,
            "does not say which primary: write redis+sentinel://host:26379/NAME, with the name that \
             the Sentinels know (`sentinel monitor NAME …`)",
        );
    }
    let is_plain = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
    if !primary.chars().all(is_plain) {
        return usage(
            shown,
            "has characters in the primary's name other than letters, digits, '.', '-' and '_' (a \
             further node needs its scheme, as in …,redis://host)",
        );
    }
    let db = options.database(shown, db)?;
    let servers = options.access(shown, &url, tls, db)?;
    let access = options.sentinel_access(&servers);
    let scheme = if tls { "rediss+sentinel" } else { "redis+sentinel" };
    let mut name = format!("{scheme}://{}/{primary}", host::joined(&hosts));
    if db != 0 {
        name.push_str(&format!("/{db}"));
    }
    let watched = Watched { sentinels: hosts, primary: primary.to_owned(), servers, access };
    Ok(Address { name, place: Place::Sentinel(watched) })
}

/// `user:password@h1:7000,h2:7000?…`
fn cluster(rest: &str, shown: &str, tls: bool) -> Result<Address, Error> {
    let (hosts, url) = hosts_and_rest(rest, shown, DEFAULT_PORT)?;
    let options = Options::read(shown, &url)?;
    options.refuse_sentinels(shown)?;
    if options.database(shown, url.path().trim_matches('/'))? != 0 {
        return usage(shown, "has a database, but a Redis Cluster has only one");
    }
    let servers = options.access(shown, &url, tls, 0)?;
    let scheme = if tls { "rediss+cluster" } else { "redis+cluster" };
    let name = format!("{scheme}://{}", host::joined(&hosts));
    Ok(Address { name, place: Place::Cluster(Seeds { hosts, servers }) })
}

/// Reads several hosts, and a URL of the first of them that has all other parts.
fn hosts_and_rest(rest: &str, shown: &str, port: u16) -> Result<(Vec<Host>, Url), Error> {
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let (login, list) = authority.rsplit_once('@').unwrap_or(("", authority));
    let mut hosts = Vec::new();
    for part in list.split(',').map(str::trim) {
        if part.is_empty() {
            return usage(shown, "names an empty host (is a variable without a value?)");
        }
        let Some(host) = Host::read(part, port) else {
            return usage(shown, NOT_UNDERSTOOD);
        };
        if hosts.contains(&host) {
            return usage(shown, &format!("names {host} twice"));
        }
        hosts.push(host);
    }
    let login = if login.is_empty() { String::new() } else { format!("{login}@") };
    match Url::parse(&format!("redis://{login}host{path}")) {
        Ok(url) => Ok((hosts, url)),
        Err(_) => usage(shown, NOT_UNDERSTOOD),
    }
}

type Server = (ConnectionAddr, String, i64);

fn tcp(shown: &str, url: &Url, tls: bool, options: &Options) -> Result<Server, Error> {
    let Some(host) = url.host_str().filter(|host| !host.is_empty()) else {
        return usage(shown, "names no host");
    };
    if url.port() == Some(0) {
        return usage(shown, NOT_UNDERSTOOD);
    }
    let host = Host::new(host, url.port().unwrap_or(DEFAULT_PORT));
    let db = options.database(shown, url.path().trim_matches('/'))?;
    let scheme = if tls { "rediss" } else { "redis" };
    let name = name(format!("{scheme}://{host}"), db);
    Ok((host.addr(tls), name, db))
}

fn unix(shown: &str, url: &Url, options: &Options) -> Result<Server, Error> {
    let path = match url.to_file_path() {
        Ok(path) if path.as_os_str() != "/" && !url.path().is_empty() => path,
        _ => return usage(shown, "names no socket; write unix:///path/to/socket"),
    };
    let db = options.database(shown, "")?;
    let name = name(format!("unix://{}", path.display()), db);
    Ok((ConnectionAddr::Unix(path), name, db))
}

fn name(place: String, db: i64) -> String {
    if db == 0 { place } else { format!("{place} (db {db})") }
}

/// Adds the scheme that is missing: `unix://` to a path, and `redis://` to a host.
fn url(text: &str) -> Cow<'_, str> {
    match text {
        _ if text.contains("://") => text.into(),
        _ if text.starts_with("//") => format!("redis:{text}").into(),
        _ if text.starts_with('/') => format!("unix://{text}").into(),
        _ if text.starts_with("unix:/") => text.replacen("unix:", "unix://", 1).into(),
        _ => format!("redis://{text}").into(),
    }
}

/// The address as it may be shown: no user, no password, no options.
pub(crate) fn without_secrets(text: &str) -> String {
    let text = &*url(text);
    let (text, rest) = text.split_at(text.find(['?', '#']).unwrap_or(text.len()));
    let (scheme, place) = text.split_once("://").unwrap_or_default();
    let is_scheme = scheme.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'+');
    let scheme = if is_scheme { scheme } else { "…" };
    // A ? or # in a password that is not escaped: what looks like a host may be a part of it.
    let place = if rest.contains('@') { "…" } else { place };
    let place = match place.rsplit_once('@') {
        Some((_, place)) => place.to_owned(),
        None => without_half_a_password(place),
    };
    format!("{scheme}://{place}").escape_debug().to_string()
}

/// Leaves out all that follows a `:` without a port: a comma in a password ends the address before its host.
fn without_half_a_password(place: &str) -> String {
    let authority = place.split('/').next().unwrap_or_default();
    let is_secret = |at: &usize| {
        let (host, rest) = (&authority[..*at], &authority[at + 1..]);
        let is_in_brackets = host.rfind('[') > host.rfind(']');
        let is_port = rest.split(',').next().is_some_and(|port| port.parse::<u32>().is_ok());
        !is_in_brackets && (host.is_empty() || !is_port)
    };
    let mut colons = authority.match_indices(':').map(|(at, _)| at);
    match colons.find(is_secret) {
        Some(at) => format!("{}:…", &place[..at]),
        None => place.to_owned(),
    }
}

fn usage<T>(shown: &str, what: &str) -> Result<T, Error> {
    Err(Error::Usage(format!("the node address {shown} {what}")))
}

/// A list without the entry would be another set of nodes, with a smaller majority.
const AN_EMPTY_ONE: &str = "the list of nodes has an empty entry (is a variable without a value?)";
const A_LOGIN_ALONE: &str = "has a login and no scheme: write redis://user:password@host, and %2C for a comma in a \
                             password";
const DEFAULT_PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;
const SCHEMES: &str = "redis://, rediss:// or unix:// (a server), redis+sentinel:// or \
                       rediss+sentinel:// (a primary and its Sentinels), redis+cluster:// or \
                       rediss+cluster://";
const NOT_UNDERSTOOD: &str = "cannot be understood (is the port a number from 1 to 65535? does the \
                              password have special characters? write %40 for @, %2F for /, %2C for a comma, and \
                              so on)";
