//! Certificates for nodes behind TLS. Of the servers here Redis 7.0 and 8.6 support it.

use std::fs;
use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
use tempfile::TempDir;

use crate::builder::Builder;
use crate::kind::Kind;
use crate::ports;
use crate::server::Server;

/// An authority, and a certificate for a node of this machine.
pub struct Certificates {
    folder: TempDir,
}

impl Certificates {
    /// A certificate for 127.0.0.1 that is valid.
    pub fn valid() -> Certificates {
        Certificates::with(|_| {})
    }

    /// A certificate that has expired.
    pub fn expired() -> Certificates {
        Certificates::with(|params| params.not_after = date_time_ymd(2001, 1, 1))
    }

    fn with(change: impl Fn(&mut CertificateParams)) -> Certificates {
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
        change(&mut params);
        let nodes = params.signed_by(&node, &issuer).expect("the authority signs");
        let certificates = Certificates { folder };
        certificates.write("ca.pem", &own.pem());
        certificates.write("node.pem", &nodes.pem());
        certificates.write("node.key", &node.serialize_pem());
        certificates
    }

    /// A server that speaks TLS at the port. `wants`: its demand for client certificates.
    pub fn server(&self, wants: &str) -> (Builder, u16) {
        self.added_to(Server::build(Kind::Redis70), wants)
    }

    /// The same for a given builder.
    pub fn added_to(&self, server: Builder, wants: &str) -> (Builder, u16) {
        let (port, lines) = self.lines(wants);
        (lines.iter().fold(server, |server, line| server.config(line)), port)
    }

    /// The port, and the lines about TLS for the configuration of a server or a Sentinel.
    pub fn lines(&self, wants: &str) -> (u16, [String; 5]) {
        let port = ports::free();
        let file = |name| self.path(name).display().to_string();
        let lines = [
            format!("tls-port {port}"),
            format!("tls-cert-file {}", file("node.pem")),
            format!("tls-key-file {}", file("node.key")),
            format!("tls-ca-cert-file {}", file("ca.pem")),
            format!("tls-auth-clients {wants}"),
        ];
        (port, lines)
    }

    /// The authority's certificate (`ca.pem`), the node's (`node.pem`) and its key (`node.key`).
    pub fn path(&self, name: &str) -> PathBuf {
        Path::new(self.folder.path()).join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).expect("the folder can be written");
    }
}
