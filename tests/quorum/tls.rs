//! Nodes behind TLS: certificates are checked, always. Redis 7.0 is the server here that has TLS.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use dlock_client::{Client, Error};
use harness::{Kind, Quorum, Server, ports};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use tempfile::TempDir;

use crate::coordinator::{assert_holds, connect, ms, run, take};

const TTL: Duration = ms(2_000);

#[test]
fn a_node_is_reached_through_tls_with_an_authority_of_ones_own() {
    let papers = Papers::new();
    let (quorum, port) = papers.node("no");
    run(async {
        let url = format!("rediss://127.0.0.1:{port}?ca={}", papers.path("ca.pem").display());
        let client = connect(&[url]).await;
        let guard = take(&client, "job", TTL).await;
        assert_holds(&quorum, &guard);
        guard.release().await.expect("it is held");
        let name = client.nodes().next().map(|node| node.name().to_owned());
        assert_eq!(name, Some(format!("rediss://127.0.0.1:{port}")));
    });
}

#[test]
fn a_node_with_a_certificate_that_nobody_vouches_for_is_refused() {
    let papers = Papers::new();
    let (_quorum, port) = papers.node("no");
    let other = Papers::new();
    run(async {
        let ca = other.path("ca.pem");
        for url in [
            format!("rediss://127.0.0.1:{port}"),
            format!("rediss://127.0.0.1:{port}?ca={}", ca.display()),
        ] {
            assert_names_the_certificate(&url).await;
        }
    });
}

#[test]
fn a_node_under_another_name_than_its_certificates_is_refused() {
    let papers = Papers::new();
    let (_quorum, port) = papers.node("no");
    run(async {
        let ca = papers.path("ca.pem");
        assert_names_the_certificate(&format!("rediss://localhost:{port}?ca={}", ca.display()))
            .await;
    });
}

#[test]
fn a_program_shows_a_certificate_of_its_own_where_the_node_wants_one() {
    let papers = Papers::new();
    let (_quorum, port) = papers.node("yes");
    run(async {
        let file = |name: &str| papers.path(name).display().to_string();
        let ca = file("ca.pem");
        let (cert, key) = (file("node.pem"), file("node.key"));
        let with = format!("rediss://127.0.0.1:{port}?ca={ca}&cert={cert}&key={key}");
        let client = connect(&[with]).await;
        take(&client, "job", TTL).await.release().await.expect("it is held");
        let without = Client::connect(&format!("rediss://127.0.0.1:{port}?ca={ca}")).await;
        assert!(matches!(without, Err(Error::Connect { .. })), "{:?}", without.err());
    });
}

async fn assert_names_the_certificate(url: &str) {
    let error = Client::connect(url).await.expect_err("it must not be trusted");
    assert!(matches!(error, Error::Connect { .. }), "{error:?}");
    assert!(error.to_string().contains("certificate"), "{error}");
}

/// An authority, and a certificate for a node of this machine.
struct Papers {
    folder: TempDir,
}

impl Papers {
    fn new() -> Papers {
        let folder = TempDir::with_prefix("dlock-test-").expect("a temporary folder can be made");
        let key = || KeyPair::generate().expect("there is randomness");
        let (authority, node) = (key(), key());
        let mut params = CertificateParams::new([]).expect("no names are no bad names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "an authority");
        let own = params.self_signed(&authority).expect("it signs itself");
        let issuer = Issuer::new(params, authority);
        let names = ["127.0.0.1".to_owned()];
        let mut params = CertificateParams::new(names).expect("it is an address");
        params.distinguished_name.push(DnType::CommonName, "a node");
        let nodes = params.signed_by(&node, &issuer).expect("the authority signs");
        let papers = Papers { folder };
        papers.write("ca.pem", &own.pem());
        papers.write("node.pem", &nodes.pem());
        papers.write("node.key", &node.serialize_pem());
        papers
    }

    /// A node that speaks TLS at the port, and whether it wants to see certificates.
    fn node(&self, wants: &str) -> (Quorum, u16) {
        let port = ports::free();
        let file = |name| self.path(name).display().to_string();
        let server = Server::build(Kind::Redis70)
            .config(&format!("tls-port {port}"))
            .config(&format!("tls-cert-file {}", file("node.pem")))
            .config(&format!("tls-key-file {}", file("node.key")))
            .config(&format!("tls-ca-cert-file {}", file("ca.pem")))
            .config(&format!("tls-auth-clients {wants}"));
        (Quorum::of(vec![server]), port)
    }

    fn path(&self, name: &str) -> PathBuf {
        Path::new(self.folder.path()).join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).expect("the folder can be written");
    }
}
