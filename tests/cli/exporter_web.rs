//! `dlock exporter --web-config`: TLS and passwords.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use harness::exporter::{Answer, Exporter};
use harness::{Certificates, Kind, Server, eventually};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::version::{TLS12, TLS13};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned, SupportedProtocolVersion,
};
use serde_json::Value;
use tempfile::TempDir;

use crate::{addresses, dlock};

/// The bcrypt hashes of the passwords `secret` and `other`.
const SECRET: &str = "$2b$04$oZ4Ziy9KcSMQeuPGz9F7Uu36mpaaql0j4eVUcKNYhAS2w/ZvJxbgO";
const OTHER: &str = "$2b$04$tVjVGMG1vmSSgwLzb21c3OsYSw.lwAicNsVnMuFrW1Wl.O3c9auMu";

/// A file for `--web-config`.
struct File(TempDir);

impl File {
    fn new(text: &str) -> File {
        let file = File(TempDir::with_prefix("dlock-test-").expect("a folder can be made"));
        file.write(text);
        file
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("web.yml")
    }

    fn write(&self, text: &str) {
        fs::write(self.path(), text).expect("there is room");
    }

    /// An exporter that others can reach.
    #[track_caller]
    fn exporter(&self, server: &Server) -> Exporter {
        let path = self.path().display().to_string();
        let listen = ["--listen", "0.0.0.0:0", "--web-config", &path];
        Exporter::start(&[format!("127.0.0.1:{}", server.port())], &listen)
    }
}

/// A request by this user.
fn request(path: &str, user: &str) -> String {
    let user = match user {
        "" => String::new(),
        user => format!("Authorization: Basic {}\r\n", STANDARD.encode(user)),
    };
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{user}\r\n")
}

/// The status that this user gets.
#[track_caller]
fn status(exporter: &Exporter, path: &str, user: &str) -> u16 {
    exporter.send(&request(path, user)).status
}

/// A client that asks over TLS.
struct Asker<'p> {
    trusts: &'p Certificates,
    shows: Option<&'p Certificates>,
    versions: Vec<&'static SupportedProtocolVersion>,
}

impl<'p> Asker<'p> {
    fn new(trusts: &'p Certificates) -> Asker<'p> {
        Asker { trusts, shows: None, versions: vec![&TLS12, &TLS13] }
    }

    #[track_caller]
    fn status(&self, exporter: &Exporter, path: &str) -> u16 {
        let mut roots = RootCertStore::empty();
        let authority = CertificateDer::from_pem_file(self.trusts.path("ca.pem")).unwrap();
        roots.add(authority).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(&self.versions)
            .unwrap()
            .with_root_certificates(roots);
        let config = match self.shows {
            None => config.with_no_client_auth(),
            Some(certificates) => {
                let own = CertificateDer::from_pem_file(certificates.path("node.pem")).unwrap();
                let key = PrivateKeyDer::from_pem_file(certificates.path("node.key")).unwrap();
                config.with_client_auth_cert(vec![own], key).unwrap()
            }
        };
        let name = ServerName::try_from("127.0.0.1").unwrap();
        let connection = ClientConnection::new(Arc::new(config), name).unwrap();
        let stream = StreamOwned::new(connection, exporter.connect());
        Answer::to(&request(path, ""), stream).status
    }
}

fn tls(certificates: &Certificates, more: &str) -> String {
    let path = |name| certificates.path(name).display().to_string();
    let (certificate, key) = (path("node.pem"), path("node.key"));
    format!("tls_server_config:\n  cert_file: {certificate}\n  key_file: {key}\n{more}")
}

#[test]
fn a_password_is_asked_for_and_who_knows_it_sees_the_page_beyond_this_machine() {
    let server = Server::start(Kind::Redis82);
    let file = File::new(&format!("basic_auth_users:\n  ann: {SECRET}\n  bob: {OTHER}\n"));
    let exporter = file.exporter(&server);
    for path in ["/", "/state", "/metrics", "/nothing"] {
        for wrong in ["", "ann:other", "bob:secret", "ann:", "eve:secret", ":secret", "ann"] {
            assert_eq!(status(&exporter, path, wrong), 401, "{path} {wrong}");
        }
    }
    for path in ["/", "/state", "/metrics"] {
        // The second time it is known already.
        for right in ["ann:secret", "bob:other", "ann:secret"] {
            assert_eq!(status(&exporter, path, right), 200, "{path} {right}");
        }
    }
    assert_eq!(status(&exporter, "/healthz", ""), 200);
    let asked = exporter.send(&request("/metrics", ""));
    assert!(asked.head.contains("www-authenticate: basic realm=\"dlock\""), "{}", asked.head);
    // A page of somebody else does not come in with the user's password.
    let foreign = request("/state", "ann:secret").replace("localhost", "evil.example");
    assert_eq!(exporter.send(&foreign).status, 421);
}

/// A check of this hash takes some tenths of a second.
#[test]
fn one_password_is_checked_at_a_time_also_when_clients_break_off() {
    let slow = "$2y$12$QOauhQNbBCuQDKes6eFzPeMqBSjb7Mr5DUmpZ/VcEd00UAV/LDeSi";
    let file = File::new(&format!("basic_auth_users:\n  ann: {slow}\n"));
    let exporter = file.exporter(&Server::start(Kind::Redis82));
    let threads = || fs::read_dir(format!("/proc/{}/task", exporter.id())).unwrap().count();
    let before = threads();
    let clients: Vec<_> = (0..8)
        .map(|_| {
            let mut client = exporter.connect();
            client.write_all(request("/metrics", "ann:wrong").as_bytes()).unwrap();
            client
        })
        .collect();
    eventually("one is checked", || threads() > before);
    drop(clients);
    assert_eq!(status(&exporter, "/metrics", "ann:wrong"), 401);
    // A thread that has checked one waits for a while for the next, which may have come before it did.
    assert!(threads() <= before + 2, "{} more", threads() - before);
}

#[test]
fn behind_tls_it_answers_who_trusts_it_and_nobody_else() {
    let (server, certificates, others) =
        (Server::start(Kind::Redis82), Certificates::valid(), Certificates::valid());
    let file = File::new(&tls(&certificates, ""));
    let exporter = file.exporter(&server);
    assert!(exporter.url.starts_with("https://"), "{}", exporter.url);
    assert_eq!(Asker::new(&certificates).status(&exporter, "/metrics"), 200);
    assert_eq!(Asker::new(&others).status(&exporter, "/metrics"), 0);
    assert_eq!(status(&exporter, "/metrics", ""), 0, "without TLS");
    // The exporter does not know who asks.
    assert_eq!(Asker::new(&certificates).status(&exporter, "/"), 403);
}

#[test]
fn clients_may_have_to_show_a_certificate() {
    let (server, certificates, others) =
        (Server::start(Kind::Redis82), Certificates::valid(), Certificates::valid());
    let authority = certificates.path("ca.pem").display().to_string();
    let text = |kind| {
        tls(&certificates, &format!("  client_auth_type: {kind}\n  client_ca_file: {authority}\n"))
    };
    let file = File::new(&text("RequireAndVerifyClientCert"));
    let exporter = file.exporter(&server);
    let asker = |shows| Asker { shows, ..Asker::new(&certificates) };
    assert_eq!(asker(Some(&certificates)).status(&exporter, "/"), 200);
    assert_eq!(asker(Some(&others)).status(&exporter, "/metrics"), 0);
    assert_eq!(asker(None).status(&exporter, "/metrics"), 0);
    file.write(&text("VerifyClientCertIfGiven"));
    assert_eq!(asker(Some(&certificates)).status(&exporter, "/metrics"), 200);
    assert_eq!(asker(Some(&others)).status(&exporter, "/metrics"), 0);
    assert_eq!(asker(None).status(&exporter, "/metrics"), 200);
    assert_eq!(asker(Some(&certificates)).status(&exporter, "/"), 403, "anybody could come");
}

#[test]
fn the_versions_of_tls_are_those_of_the_file() {
    let (server, certificates) = (Server::start(Kind::Redis82), Certificates::valid());
    let old = Asker { versions: vec![&TLS12], ..Asker::new(&certificates) };
    let new = Asker { versions: vec![&TLS13], ..Asker::new(&certificates) };
    let file = File::new(&tls(&certificates, "  min_version: TLS13\n"));
    let exporter = file.exporter(&server);
    assert_eq!((old.status(&exporter, "/metrics"), new.status(&exporter, "/metrics")), (0, 200));
    file.write(&tls(&certificates, "  max_version: TLS12\n"));
    assert_eq!((old.status(&exporter, "/metrics"), new.status(&exporter, "/metrics")), (200, 0));
}

#[test]
fn what_is_changed_counts_from_the_next_connection_on() {
    let server = Server::start(Kind::Redis82);
    let file = File::new(&format!("basic_auth_users:\n  ann: {SECRET}\n"));
    let exporter = file.exporter(&server);
    assert_eq!(status(&exporter, "/metrics", "ann:secret"), 200);
    file.write(&format!("basic_auth_users:\n  ann: {OTHER}\n"));
    assert_eq!(status(&exporter, "/metrics", "ann:secret"), 401, "it was known before");
    assert_eq!(status(&exporter, "/metrics", "ann:other"), 200);
    file.write(&format!("basic_auth_users:\n  zoe: {OTHER}\n"));
    assert_eq!(status(&exporter, "/metrics", "ann:other"), 401, "that is zoe's");
    assert_eq!(status(&exporter, "/metrics", "zoe:other"), 200);
    // With a mistake in the file nobody is let in, and it is said once.
    file.write("basic_auth_user:\n");
    for _ in 0..3 {
        assert_eq!(status(&exporter, "/metrics", "zoe:other"), 0);
    }
    eventually("it complains", || exporter.complaints().contains("basic_auth_user is not"));
    let said: Vec<Value> =
        exporter.complaints().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(said.len() == 1 && said[0]["kind"] == "web_config", "{said:?}");
    file.write("");
    assert_eq!(status(&exporter, "/metrics", ""), 200);
    // Nobody who asks in the clear is served all of a sudden, nor the other way round.
    file.write(&tls(&Certificates::valid(), ""));
    assert_eq!(status(&exporter, "/metrics", ""), 0);
    assert!(exporter.complaints().contains("TLS cannot be switched"), "{}", exporter.complaints());
}

#[test]
fn a_certificate_that_is_renewed_is_shown_at_once() {
    let (server, old, new) =
        (Server::start(Kind::Redis82), Certificates::valid(), Certificates::valid());
    let file = File::new(&tls(&old, ""));
    let exporter = file.exporter(&server);
    let authority = Certificates::valid();
    fs::copy(old.path("ca.pem"), authority.path("ca.pem")).unwrap();
    assert_eq!(Asker::new(&authority).status(&exporter, "/metrics"), 200);
    for name in ["node.pem", "node.key"] {
        fs::copy(new.path(name), old.path(name)).unwrap();
    }
    assert_eq!(Asker::new(&authority).status(&exporter, "/metrics"), 0);
    assert_eq!(Asker::new(&new).status(&exporter, "/metrics"), 200);
}

#[test]
fn a_file_with_a_mistake_is_refused_at_the_start() {
    let servers = [Server::start(Kind::Redis82)];
    assert!(!addresses(&servers).is_empty());
    let certificates = Certificates::valid();
    let gone = tls(&certificates, "").replace("node.pem", "gone.pem");
    for (text, words) in [
        ("basic_auth_users: {ann: secret}", "not a hash that bcrypt has made"),
        ("http_server_config: {}", "http_server_config is not supported"),
        ("tls_server_config: {", "web.yml: "),
        (&gone, "gone.pem"),
    ] {
        let file = File::new(text);
        let path = file.path().display().to_string();
        let said = dlock(&servers, &["exporter", "--web-config", &path]).with_code(64);
        assert!(said.err.contains(words), "{words}: {}", said.err);
    }
    let said = dlock(&servers, &["exporter", "--web-config", "nowhere.yml"]).with_code(64);
    assert!(said.err.contains("nowhere.yml"), "{}", said.err);
}
