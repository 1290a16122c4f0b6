//! TLS: trusted certificates, the client's own, and errors with advice.

use std::error::Error as _;
use std::fs;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use redis::RedisError;
use rustls::client::Resumption;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{AlertDescription, CertificateError, ClientConfig, Error, RootCertStore};
use tracing::debug;

/// TLS settings of an address.
pub(crate) struct Tls {
    files: Certificates,
    /// The system's CA certificates; none if the address names others.
    system: Arc<RootCertStore>,
    last: Mutex<Arc<ClientConfig>>,
}

impl Tls {
    /// Reads the files.
    ///
    /// # Errors
    /// Names the file, and what is wrong with it.
    pub(crate) fn new(files: Certificates) -> Result<Tls, String> {
        let mut system = RootCertStore::empty();
        // Without any CA certificate, the error appears when a server shows its certificate.
        if files.ca.is_none() {
            system.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
        let system = Arc::new(system);
        let last = Mutex::new(files.read(&system)?);
        Ok(Tls { files, system, last })
    }

    /// The settings for a new connection. The files of the address are read again, as certificates are renewed. Files
    /// that cannot be used, perhaps because they are being replaced, leave the earlier ones in use.
    pub(crate) fn config(&self) -> Arc<ClientConfig> {
        let read = self.files.are_given().then(|| self.files.read(&self.system));
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        match read {
            Some(Ok(config)) => *last = config,
            Some(Err(why)) => debug!(why, "the earlier certificates are used"),
            None => {}
        }
        Arc::clone(&last)
    }
}

/// The certificate files of an address.
#[derive(Clone, Default)]
pub(crate) struct Certificates {
    /// CA certificates to trust, in place of the system's.
    pub(crate) ca: Option<String>,
    /// The client's own certificate, and its key.
    pub(crate) cert: Option<String>,
    pub(crate) key: Option<String>,
}

impl Certificates {
    pub(crate) fn are_given(&self) -> bool {
        self.ca.is_some() || self.cert.is_some() || self.key.is_some()
    }

    fn read(&self, system: &Arc<RootCertStore>) -> Result<Arc<ClientConfig>, String> {
        let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(self.trusted(system)?);
        let mut config = match (&self.cert, &self.key) {
            (None, None) => config.with_no_client_auth(),
            (Some(cert), Some(key)) => {
                let refused =
                    |error| format!("names the file {cert}, which cannot be used: {error}");
                config.with_client_auth_cert(certificates(cert)?, private(key)?).map_err(refused)?
            }
            _ => return Err("needs cert and key together".to_owned()),
        };
        // A server that wants certificates and keeps no sessions refuses a client that resumes one.
        config.resumption = Resumption::disabled();
        Ok(Arc::new(config))
    }

    fn trusted(&self, system: &Arc<RootCertStore>) -> Result<Arc<RootCertStore>, String> {
        let Some(ca) = &self.ca else { return Ok(Arc::clone(system)) };
        let mut trusted = RootCertStore::empty();
        for authority in certificates(ca)? {
            let refused = |error| format!("names the file {ca}, which cannot be used: {error}");
            trusted.add(authority).map_err(refused)?;
        }
        Ok(Arc::new(trusted))
    }
}

fn certificates(path: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let text = text(path, "BEGIN CERTIFICATE")?;
    let all = CertificateDer::pem_slice_iter(&text).collect::<Result<_, _>>();
    all.map_err(|error| format!("names the file {path}, which cannot be used: {error}"))
}

fn private(path: &str) -> Result<PrivateKeyDer<'static>, String> {
    let key = PrivateKeyDer::from_pem_slice(&text(path, "PRIVATE KEY")?);
    key.map_err(|error| format!("names the file {path}, which cannot be used: {error}"))
}

/// Reads a file, and checks that it contains this.
fn text(path: &str, what: &str) -> Result<Vec<u8>, String> {
    match fs::read_to_string(path) {
        Ok(text) if text.contains(what) => Ok(text.into_bytes()),
        Ok(_) => Err(format!("names the file {path}, which holds no '{what}' (PEM)")),
        Err(error) => Err(format!("names the file {path}, which cannot be read: {error}")),
    }
}

/// Describes a TLS failure of a connection, if it is one.
pub(crate) fn explained(error: &RedisError) -> Option<String> {
    let source = error.source()?.downcast_ref::<Arc<dyn std::error::Error + Send + Sync>>()?;
    let cause = source.downcast_ref::<Error>().or_else(|| {
        let error: &io::Error = source.downcast_ref()?;
        error.get_ref()?.downcast_ref()
    })?;
    Some(words(cause))
}

fn words(error: &Error) -> String {
    use AlertDescription as Alert;
    match error {
        Error::InvalidCertificate(why) => format!("its certificate {}", certificate(why)),
        Error::AlertReceived(Alert::CertificateRequired) => {
            "it wants a certificate from the client: rediss://host?cert=FILE&key=FILE".to_owned()
        }
        Error::AlertReceived(Alert::UnknownCA | Alert::BadCertificate | Alert::DecryptError) => {
            "it does not accept the client's certificate in ?cert=FILE".to_owned()
        }
        Error::AlertReceived(Alert::CertificateExpired) => {
            "it does not accept the client's certificate, which has expired".to_owned()
        }
        Error::InvalidMessage(_) => {
            "the server there does not speak TLS: write redis://, or give its tls-port".to_owned()
        }
        Error::PeerIncompatible(_)
        | Error::AlertReceived(Alert::HandshakeFailure | Alert::ProtocolVersion) => {
            "it and dlock have no version of TLS, or no cipher, in common".to_owned()
        }
        other => format!("TLS fails: {other}"),
    }
}

fn certificate(error: &CertificateError) -> String {
    use CertificateError as C;
    match error {
        // A CA with a new key keeps its name.
        C::UnknownIssuer | C::BadSignature => {
            "is not signed by an authority that is trusted here; name the right one with ?ca=FILE"
                .to_owned()
        }
        C::Expired | C::ExpiredContext { .. } => {
            "has expired, if this machine's clock is right".to_owned()
        }
        C::NotValidYet | C::NotValidYetContext { .. } => {
            "is not valid yet, if this machine's clock is right".to_owned()
        }
        C::NotValidForName => "is for another name".to_owned(),
        C::NotValidForNameContext { expected, presented } => {
            let names: Vec<String> = presented.iter().map(|name| name_of(name)).collect();
            format!("is for {}, not for {}", names.join(", "), expected.to_str())
        }
        C::Revoked => "was revoked".to_owned(),
        other => format!("is not accepted: {other}"),
    }
}

/// `DnsName("a")` and `IpAddress(10.0.0.1)` are names of the library's own types.
fn name_of(presented: &str) -> String {
    let inner = presented.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')'));
    inner.unwrap_or(presented).trim_matches('"').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_shown_without_their_types() {
        assert_eq!(name_of("DnsName(\"node.example\")"), "node.example");
        assert_eq!(name_of("IpAddress(10.0.0.1)"), "10.0.0.1");
        assert_eq!(name_of("node.example"), "node.example");
    }
}
