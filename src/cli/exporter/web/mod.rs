//! `--web-config`: TLS and passwords, in the format of Prometheus' own exporters.
//!
//! [`config`]: the file. [`tls`]: its certificates. [`users`]: its passwords.
//!
//! As theirs, it is read again for each connection, and so are the certificates: what was changed counts
//! from then on. A file with a mistake lets nobody in.

mod config;
mod tls;
pub mod users;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tokio_rustls::TlsAcceptor;

use crate::say::stderr;
use config::Config;
use users::{Passwords, Users};

/// Where the file is, and what has been found out about it.
pub struct Web {
    file: PathBuf,
    /// True if there was TLS in the beginning: nobody can be surprised by a change.
    pub is_tls: bool,
    passwords: Arc<Passwords>,
    as_json: bool,
    /// The mistake that was complained of last.
    complaint: Mutex<Option<String>>,
}

/// The way in which one connection is served.
#[derive(Clone, Default)]
pub struct Access {
    /// The users that may log in; `None`: everybody has access.
    pub users: Option<Users>,
    /// Whoever comes in is known: by a password, or a certificate.
    pub is_known: bool,
}

impl Web {
    /// Reads the file, with its certificates.
    pub fn new(file: &Path, as_json: bool) -> Result<Web, String> {
        let config = Config::read(file)?;
        config.tls.as_ref().map(tls::acceptor).transpose()?;
        Ok(Web {
            file: file.to_owned(),
            is_tls: config.tls.is_some(),
            passwords: Arc::default(),
            as_json,
            complaint: Mutex::default(),
        })
    }

    /// Returns the way to serve the next connection; `None`: it is refused, which is reported once.
    pub fn access(&self) -> Option<(Option<TlsAcceptor>, Access)> {
        let read = self.read();
        let mut complaint = self.complaint.lock().unwrap_or_else(PoisonError::into_inner);
        match read {
            Ok(access) => {
                *complaint = None;
                Some(access)
            }
            Err(why) => {
                if complaint.as_ref() != Some(&why) {
                    let words = format_args!("nobody is let in: {why}");
                    stderr::warn("web_config", words, self.as_json);
                    *complaint = Some(why);
                }
                None
            }
        }
    }

    fn read(&self) -> Result<(Option<TlsAcceptor>, Access), String> {
        let config = Config::read(&self.file)?;
        if config.tls.is_some() != self.is_tls {
            let words = "TLS cannot be switched on or off while dlock exporter runs";
            return Err(format!("{}: {words}", self.file.display()));
        }
        let acceptor = config.tls.as_ref().map(tls::acceptor).transpose()?;
        let has_certificates = config.tls.as_ref().is_some_and(|tls| tls.wants_certificates());
        let is_known = has_certificates || !config.users.is_empty();
        let users = (!config.users.is_empty())
            .then(|| Users::new(config.users, Arc::clone(&self.passwords)));
        Ok((acceptor, Access { users, is_known }))
    }
}
