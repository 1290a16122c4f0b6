//! From the names of certificates to a server that shows them.

use std::path::Path;
use std::sync::Arc;

use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::version::{TLS12, TLS13};
use rustls::{RootCertStore, ServerConfig, SupportedProtocolVersion};
use tokio_rustls::TlsAcceptor;

use super::config::{Clients, Tls, Version};

/// Makes the acceptor of connections with these certificates.
pub fn acceptor(tls: &Tls) -> Result<TlsAcceptor, String> {
    let versions: Vec<&SupportedProtocolVersion> =
        [(Version::Tls12, &TLS12), (Version::Tls13, &TLS13)]
            .into_iter()
            .filter(|(version, _)| (tls.oldest..=tls.newest).contains(version))
            .map(|(_, known)| known)
            .collect();
    let server = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(&versions)
        .map_err(|error| error.to_string())?;
    let server = match verifier(tls)? {
        Some(verifier) => server.with_client_cert_verifier(verifier),
        None => server.with_no_client_auth(),
    };
    let certificates = certificates(&tls.certificate)?;
    let key = PrivateKeyDer::from_pem_file(&tls.key).map_err(|error| about(&tls.key, &error))?;
    let mut server = server
        .with_single_cert(certificates, key)
        .map_err(|error| about(&tls.certificate, &error))?;
    server.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(server)))
}

/// Makes the verifier of clients' certificates.
fn verifier(tls: &Tls) -> Result<Option<Arc<dyn ClientCertVerifier>>, String> {
    let Some(file) = &tls.authority else { return Ok(None) };
    let mut roots = RootCertStore::empty();
    for certificate in certificates(file)? {
        roots.add(certificate).map_err(|error| about(file, &error))?;
    }
    let provider = Arc::new(default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    let verifier = match tls.clients {
        Clients::Known => verifier,
        Clients::Any | Clients::Checked => verifier.allow_unauthenticated(),
    };
    verifier.build().map(Some).map_err(|error| about(file, &error))
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let all = CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let all = all.map_err(|error| about(file, &error))?;
    if all.is_empty() { Err(about(file, &"it has no certificate")) } else { Ok(all) }
}

fn about(file: &Path, error: &dyn std::fmt::Display) -> String {
    format!("{}: {error}", file.display())
}
