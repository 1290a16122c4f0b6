//! Where the nodes are: `redis://`, `rediss://` and `unix://` URLs.

use std::borrow::Cow;
use std::fs;
use std::time::Duration;

use redis::io::tcp::socket2::TcpKeepalive;
use redis::{
    ClientTlsConfig, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, ProtocolVersion,
    RedisConnectionInfo, TlsCertificates,
};
use url::Url;

use crate::report::error::Error;

/// The address of one node, for programs that talk to single nodes: a [`Client`](crate::Client) needs a
/// majority.
#[derive(Debug)]
pub struct Address {
    /// How it is shown: without user and password.
    pub name: String,
    /// What to connect with.
    pub client: redis::Client,
}

impl Address {
    /// Reads a `redis://`, `rediss://` or `unix://` URL, as [`Client::connect`](crate::Client::connect)
    /// does.
    ///
    /// # Errors
    /// [`Error::Usage`] says what is wrong with it, without secrets.
    pub fn read(url: &str) -> Result<Address, Error> {
        read(url)
    }
}

/// Splits a list at its commas. A comma in a password is written `%2C`.
pub(crate) fn split(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(str::trim).filter(|part| !part.is_empty())
}

/// Reads all addresses.
pub(crate) fn read_all(list: &[String]) -> Result<Vec<Address>, Error> {
    let mut all: Vec<Address> = Vec::new();
    for text in list.iter().flat_map(|part| split(part)) {
        let address = read(text)?;
        if all.iter().any(|other| other.name == address.name) {
            return usage(&address.name, "is given twice; each address must be a node of its own");
        }
        all.push(address);
    }
    if all.is_empty() {
        return Err(Error::Usage("no node is given; write redis://host:port".to_owned()));
    }
    Ok(all)
}

/// Reads one address.
pub(crate) fn read(text: &str) -> Result<Address, Error> {
    let shown = without_secrets(text);
    if !text.contains("://") {
        return usage(&shown, &format!("is not a URL; write redis://{shown}"));
    }
    let scheme = text.split("://").next().unwrap_or_default();
    if !["redis", "rediss", "unix"].contains(&scheme) {
        return usage(&shown, "does not begin with redis://, rediss:// or unix://");
    }
    let place = shown.split("://").nth(1).unwrap_or_default();
    if scheme != "unix" && (place.is_empty() || place.starts_with(['/', ':'])) {
        return usage(&shown, "names no host");
    }
    let Some(url) = redis::parse_redis_url(text) else {
        return usage(
            &shown,
            "cannot be understood (does the password have special characters? write \
             %40 for @, %2F for /, and so on)",
        );
    };
    if url.fragment().is_some() {
        return usage(
            &shown,
            "has a # part, which means nothing here: certificates are always checked",
        );
    }
    let mut options = Options::default();
    for (name, value) in url.query_pairs() {
        options.take(&shown, &name, value)?;
    }
    let (addr, name, db) = match scheme {
        "unix" => unix(&shown, &url, &options)?,
        _ => tcp(&shown, &url, scheme == "rediss", &options)?,
    };
    let user = options.user.or_else(|| decoded(url.username()));
    let password = options.password.or_else(|| url.password().and_then(decoded));
    let mut login = RedisConnectionInfo::default().set_db(db).set_protocol(ProtocolVersion::RESP3);
    login = login.set_lib_name("dlock", env!("CARGO_PKG_VERSION"));
    if let Some(user) = user {
        login = login.set_username(user);
    }
    if let Some(password) = password {
        login = login.set_password(password);
    }
    let info = addr.into_connection_info().map(|info| info.set_redis_settings(login));
    let certificates = options.certificates.read(&shown)?;
    let client = info.and_then(|info| open(info, scheme == "rediss", certificates));
    match client {
        Ok(client) => Ok(Address { name, client }),
        Err(error) => usage(&shown, &format!("cannot be used: {error}")),
    }
}

fn open(
    info: ConnectionInfo,
    tls: bool,
    certificates: TlsCertificates,
) -> redis::RedisResult<redis::Client> {
    // Nagle's algorithm would hold back requests while earlier ones are unanswered. Without probes,
    // nobody would notice that the connection of a waiting request is gone.
    let probes = TcpKeepalive::new().with_time(PROBE_AFTER).with_interval(PROBE_EVERY);
    let settings = info.tcp_settings().clone().set_nodelay(true).set_keepalive(probes);
    let info = info.clone().set_tcp_settings(settings);
    if !tls {
        return redis::Client::open(info);
    }
    // The first choice counts for the whole program.
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
    redis::Client::build_with_tls(info, certificates)
}

type Place = (ConnectionAddr, String, i64);

fn tcp(shown: &str, url: &Url, tls: bool, options: &Options) -> Result<Place, Error> {
    let Some(host) = url.host_str().filter(|host| !host.is_empty()) else {
        return usage(shown, "names no host");
    };
    let port = url.port().unwrap_or(DEFAULT_PORT);
    let (path, scheme) = (url.path().trim_matches('/'), if tls { "rediss" } else { "redis" });
    let db = match (path, &options.db) {
        ("", None) => 0,
        ("", Some(db)) => database(shown, db)?,
        (path, _) => database(shown, path)?,
    };
    if options.certificates.are_given() && !tls {
        return usage(shown, "has certificates, but only rediss:// uses them");
    }
    let name = name(format!("{scheme}://{host}:{port}"), db);
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    let addr = if tls {
        ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None }
    } else {
        ConnectionAddr::Tcp(host, port)
    };
    Ok((addr, name, db))
}

fn unix(shown: &str, url: &Url, options: &Options) -> Result<Place, Error> {
    let path = match url.to_file_path() {
        Ok(path) if path.as_os_str() != "/" && !url.path().is_empty() => path,
        _ => return usage(shown, "names no socket; write unix:///path/to/socket"),
    };
    if options.certificates.are_given() {
        return usage(shown, "has certificates, but only rediss:// uses them");
    }
    let db = options.db.as_deref().map_or(Ok(0), |db| database(shown, db))?;
    let name = name(format!("unix://{}", path.display()), db);
    Ok((ConnectionAddr::Unix(path), name, db))
}

fn name(place: String, db: i64) -> String {
    if db == 0 { place } else { format!("{place} (db {db})") }
}

fn database(shown: &str, text: &str) -> Result<i64, Error> {
    match text.parse() {
        Ok(db) if db >= 0 => Ok(db),
        _ => usage(shown, "must end in the number of a database"),
    }
}

/// The options after the question mark.
#[derive(Default)]
struct Options {
    user: Option<String>,
    password: Option<String>,
    db: Option<String>,
    certificates: Certificates,
}

impl Options {
    fn take(&mut self, shown: &str, name: &str, value: Cow<'_, str>) -> Result<(), Error> {
        let place = match name {
            "user" => &mut self.user,
            "pass" | "password" => &mut self.password,
            "db" => &mut self.db,
            "ca" => &mut self.certificates.ca,
            "cert" => &mut self.certificates.cert,
            "key" => &mut self.certificates.key,
            _ => {
                let text =
                    format!("has an unknown option '{}'; there are {OPTIONS}", name.escape_debug());
                return usage(shown, &text);
            }
        };
        *place = Some(value.into_owned());
        Ok(())
    }
}

/// Files with certificates.
#[derive(Default)]
struct Certificates {
    /// Authorities to trust, in place of those that this machine trusts.
    ca: Option<String>,
    /// The client's own certificate, and its key.
    cert: Option<String>,
    key: Option<String>,
}

impl Certificates {
    fn are_given(&self) -> bool {
        self.ca.is_some() || self.cert.is_some() || self.key.is_some()
    }

    fn read(self, shown: &str) -> Result<TlsCertificates, Error> {
        let file = |path: String, what: &str| match fs::read_to_string(&path) {
            Ok(text) if text.contains(what) => Ok(text.into_bytes()),
            Ok(_) => usage(shown, &format!("names the file {path}, which holds no '{what}' (PEM)")),
            Err(error) => {
                usage(shown, &format!("names the file {path}, which cannot be read: {error}"))
            }
        };
        let client_tls = match (self.cert, self.key) {
            (None, None) => None,
            (Some(cert), Some(key)) => Some(ClientTlsConfig {
                client_cert: file(cert, CERTIFICATE)?,
                client_key: file(key, KEY)?,
            }),
            _ => return usage(shown, "needs cert and key together"),
        };
        Ok(TlsCertificates {
            client_tls,
            root_cert: self.ca.map(|ca| file(ca, CERTIFICATE)).transpose()?,
        })
    }
}

/// The address as it may be shown: no user, no password, no options.
fn without_secrets(text: &str) -> String {
    let text = text.split(['?', '#']).next().unwrap_or_default();
    let shown = match text.split_once("://") {
        Some((scheme, rest)) => {
            format!("{scheme}://{}", rest.rsplit_once('@').map_or(rest, |(_, place)| place))
        }
        None => text.rsplit_once('@').map_or(text, |(_, place)| place).to_owned(),
    };
    shown.escape_debug().to_string()
}

fn decoded(part: &str) -> Option<String> {
    let text = percent_encoding::percent_decode_str(part).decode_utf8_lossy();
    (!text.is_empty()).then(|| text.into_owned())
}

fn usage<T>(shown: &str, what: &str) -> Result<T, Error> {
    Err(Error::Usage(format!("the node address {shown} {what}")))
}

const DEFAULT_PORT: u16 = 6379;
const CERTIFICATE: &str = "BEGIN CERTIFICATE";
const KEY: &str = "PRIVATE KEY";
const OPTIONS: &str = "user, pass, db, and for rediss:// ca, cert and key";

/// An idle connection is probed after this time, and then at this interval.
const PROBE_AFTER: Duration = Duration::from_secs(15);
const PROBE_EVERY: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        read(text).expect_err(text).to_string()
    }

    #[test]
    fn an_address_is_named_without_its_secrets() {
        let named = |text: &str| read(text).expect(text).name;
        assert_eq!(named("redis://10.0.0.1"), "redis://10.0.0.1:6379");
        assert_eq!(named("redis://me:secret@host:7000/3"), "redis://host:7000 (db 3)");
        assert_eq!(named("redis://[::1]:7000"), "redis://[::1]:7000");
        assert_eq!(named("rediss://:secret@host"), "rediss://host:6379");
        assert_eq!(
            named("unix:///run/redis.sock?pass=secret&db=1"),
            "unix:///run/redis.sock (db 1)"
        );
    }

    #[test]
    fn user_and_password_are_decoded() {
        let address = read("redis://me:p%40ss%2Cw@host").unwrap();
        let login = address.client.get_connection_info().redis_settings();
        assert_eq!((login.username(), login.password()), (Some("me"), Some("p@ss,w")));
        let address = read("unix:///s?user=me&password=secret").unwrap();
        let login = address.client.get_connection_info().redis_settings();
        assert_eq!((login.username(), login.password()), (Some("me"), Some("secret")));
        assert!(!format!("{address:?}").contains("secret"));
    }

    #[test]
    fn what_is_wrong_with_an_address_is_said_without_its_secrets() {
        for (text, what) in [
            ("localhost:6379", "write redis://localhost:6379"),
            ("http://host", "does not begin with"),
            ("redis://me:secret@/1", "names no host"),
            ("redis://me:secret@host/one", "number of a database"),
            ("redis://me:secret@host/-1", "number of a database"),
            ("redis://me:secret@host:70000", "understood"),
            ("redis://me:sec/ret@host", "the node address redis://"),
            ("redis://host?ca=x", "only rediss://"),
            ("rediss://host?cert=x", "cert and key together"),
            ("rediss://host?ca=missing.pem", "cannot be read"),
            ("rediss://host?ca=Cargo.toml", "holds no 'BEGIN CERTIFICATE'"),
            ("rediss://host?certs=x", "unknown option 'certs'"),
            ("rediss://host#insecure", "always checked"),
            ("unix://", "names no socket"),
        ] {
            let said = refused(text);
            assert!(said.contains(what), "{text}: {said}");
            assert!(!said.contains("secret") && !said.contains("sec/"), "{said}");
        }
    }

    #[test]
    fn a_list_has_commas_and_no_address_twice() {
        let read = |text: &str| read_all(&[text.to_owned()]);
        assert_eq!(read("redis://a, redis://b,").unwrap().len(), 2);
        assert!(read("redis://a,redis://x@a:6379").unwrap_err().to_string().contains("twice"));
        assert!(read(" ,").unwrap_err().to_string().contains("no node"));
    }
}
