//! Options of an address: the part after the question mark.

use std::borrow::Cow;
use std::sync::Arc;

use url::Url;

use super::access::{Access, Login, Map};
use super::usage;
use crate::reach::tls::{Certificates, Tls};
use crate::report::error::Error;

#[derive(Default)]
pub(super) struct Options {
    user: Option<String>,
    password: Option<String>,
    db: Option<String>,
    sentinel_user: Option<String>,
    sentinel_password: Option<String>,
    map: Map,
    certificates: Certificates,
}

impl Options {
    pub(super) fn read(shown: &str, url: &Url) -> Result<Options, Error> {
        if url.fragment().is_some() {
            return usage(shown, "has a # part: remove it; certificates are always checked");
        }
        let mut options = Options::default();
        // Not as in a form, where a + is a space: a password may have one.
        for pair in url.query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            options.take(shown, &text(name), text(value))?;
        }
        Ok(options)
    }

    fn take(&mut self, shown: &str, name: &str, value: Cow<'_, str>) -> Result<(), Error> {
        let place = match name {
            "user" => &mut self.user,
            "pass" | "password" => &mut self.password,
            "db" => &mut self.db,
            "ca" => &mut self.certificates.ca,
            "cert" => &mut self.certificates.cert,
            "key" => &mut self.certificates.key,
            "sentinel-user" => &mut self.sentinel_user,
            "sentinel-pass" | "sentinel-password" => &mut self.sentinel_password,
            "map" if self.map.add(&value) => return Ok(()),
            "map" => {
                return usage(shown, "has a map that is not told:port=reached:port");
            }
            // Its name may be the rest of a password, after a & that is not escaped.
            _ => {
                return usage(shown, &format!("has an unknown option; valid options: {OPTIONS}"));
            }
        };
        *place = Some(value.into_owned());
        Ok(())
    }

    /// Returns the database, which may be in the path or among the options.
    pub(super) fn database(&self, shown: &str, path: &str) -> Result<i64, Error> {
        let text = match (path, &self.db) {
            ("", None) => return Ok(0),
            ("", Some(db)) => db,
            (path, _) => path,
        };
        match text.parse() {
            Ok(db) if db >= 0 => Ok(db),
            _ => usage(shown, "must end in the number of a database"),
        }
    }

    /// Returns the access to the servers.
    pub(super) fn access(
        &self,
        shown: &str,
        url: &Url,
        tls: bool,
        db: i64,
    ) -> Result<Access, Error> {
        if self.certificates.are_given() && !tls {
            return usage(shown, "has certificates, but only rediss:// uses them");
        }
        let login = Login {
            user: self.user.clone().or_else(|| decoded(url.username())),
            password: self.password.clone().or_else(|| url.password().and_then(decoded)),
        };
        let tls = tls.then(|| Tls::new(self.certificates.clone())).transpose();
        let tls = tls.or_else(|why| usage(shown, &why))?.map(Arc::new);
        Ok(Access { login, db, tls, map: self.map.clone() })
    }

    /// Returns the access to the Sentinels: the servers', but with a login of its own.
    pub(super) fn sentinel_access(&self, servers: &Access) -> Access {
        let (user, password) = (self.sentinel_user.clone(), self.sentinel_password.clone());
        Access { login: Login { user, password }, db: 0, map: Map::default(), ..servers.clone() }
    }

    pub(super) fn refuse_sentinels(&self, shown: &str) -> Result<(), Error> {
        if self.sentinel_user.is_some() || self.sentinel_password.is_some() {
            return usage(shown, "has options for Sentinels, but is no redis+sentinel://");
        }
        Ok(())
    }

    pub(super) fn refuse_more_than_one_server(&self, shown: &str) -> Result<(), Error> {
        self.refuse_sentinels(shown)?;
        if !self.map.is_empty() {
            return usage(
                shown,
                "has a map, but only redis+sentinel:// and redis+cluster:// use one",
            );
        }
        Ok(())
    }
}

fn decoded(part: &str) -> Option<String> {
    Some(text(part).into_owned()).filter(|text| !text.is_empty())
}

fn text(part: &str) -> Cow<'_, str> {
    percent_encoding::percent_decode_str(part).decode_utf8_lossy()
}

const OPTIONS: &str = "user, pass, db, for rediss:// ca, cert and key, for redis+sentinel:// \
                       sentinel-user and sentinel-pass, and map";
