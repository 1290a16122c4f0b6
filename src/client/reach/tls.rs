//! What went wrong with TLS, in words that help to fix it.

use std::error::Error as _;
use std::io;
use std::sync::Arc;

use redis::RedisError;
use rustls::{AlertDescription, CertificateError, Error};

/// What a connection failed with, if it was TLS.
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
        Error::AlertReceived(Alert::UnknownCA | Alert::BadCertificate) => {
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
        // An authority with a new key keeps its name.
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
