//! The file of `--web-config`. What is not known or not supported is a mistake: a line that is ignored
//! could be the one that keeps others out.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use bcrypt::HashParts;
use saphyr::{LoadableYamlNode, Scalar, Yaml};

/// The content of the file.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Config {
    pub tls: Option<Tls>,
    /// The hash of each user's password, made by bcrypt.
    pub users: BTreeMap<String, String>,
}

/// `tls_server_config`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    pub certificate: PathBuf,
    pub key: PathBuf,
    pub clients: Clients,
    /// The CA that signs the certificates of clients.
    pub authority: Option<PathBuf>,
    pub oldest: Version,
    pub newest: Version,
}

/// `client_auth_type`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clients {
    /// No certificates.
    #[default]
    Any,
    /// A certificate that is shown has to be valid.
    Checked,
    /// Only with a valid certificate.
    Known,
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    Tls12,
    Tls13,
}

impl Tls {
    /// True if nobody comes in without a certificate.
    pub fn wants_certificates(&self) -> bool {
        self.clients == Clients::Known
    }
}

impl Config {
    /// Reads the file. Files that it names are beside it, unless they have a whole path.
    pub fn read(file: &Path) -> Result<Config, String> {
        let with_name = |why: String| format!("{}: {why}", file.display());
        let text = fs::read_to_string(file).map_err(|error| with_name(error.to_string()))?;
        let folder = file.parent().unwrap_or(Path::new(""));
        Config::parse(&text, folder).map_err(with_name)
    }

    fn parse(text: &str, folder: &Path) -> Result<Config, String> {
        let documents = Yaml::load_from_str(text).map_err(|error| error.to_string())?;
        let mut config = Config::default();
        let top = match documents.as_slice() {
            // Prometheus takes an empty file as well: nothing is switched on.
            [] | [Yaml::Value(Scalar::Null)] => return Ok(config),
            [top] => top,
            _ => return Err("there is more than one document".to_owned()),
        };
        for (name, value) in entries(top, "the file")? {
            match name {
                "tls_server_config" => config.tls = Some(tls(value, folder)?),
                "basic_auth_users" => config.users = users(value)?,
                _ => return Err(unknown(name, "tls_server_config and basic_auth_users")),
            }
        }
        Ok(config)
    }
}

fn tls(value: &Yaml<'_>, folder: &Path) -> Result<Tls, String> {
    let path = |text: &str| folder.join(text);
    let (mut certificate, mut key, mut authority, mut clients) = (None, None, None, None);
    let (mut oldest, mut newest) = (Version::Tls12, Version::Tls13);
    for (name, value) in entries(value, "tls_server_config")? {
        let text = text(value, name)?;
        match name {
            "cert_file" => certificate = Some(path(text)),
            "key_file" => key = Some(path(text)),
            "client_ca_file" => authority = Some(path(text)),
            "client_auth_type" => clients = Some(auth(text)?),
            "min_version" => oldest = version(name, text)?,
            "max_version" => newest = version(name, text)?,
            _ => return Err(unknown(name, KNOWN_OF_TLS)),
        }
    }
    let needed = |name: &str| format!("tls_server_config needs {name}");
    let tls = Tls {
        certificate: certificate.ok_or_else(|| needed("cert_file"))?,
        key: key.ok_or_else(|| needed("key_file"))?,
        clients: clients.unwrap_or_default(),
        authority,
        oldest,
        newest,
    };
    if (tls.clients == Clients::Any) != tls.authority.is_none() {
        return Err("client_ca_file and client_auth_type need each other".to_owned());
    }
    if tls.oldest > tls.newest {
        return Err("min_version is newer than max_version".to_owned());
    }
    Ok(tls)
}

fn auth(text: &str) -> Result<Clients, String> {
    match text {
        "NoClientCert" => Ok(Clients::Any),
        "VerifyClientCertIfGiven" => Ok(Clients::Checked),
        "RequireAndVerifyClientCert" => Ok(Clients::Known),
        _ => Err(format!("client_auth_type {text} is not supported: {KNOWN_OF_AUTH}")),
    }
}

fn version(name: &str, text: &str) -> Result<Version, String> {
    match text {
        "TLS12" => Ok(Version::Tls12),
        "TLS13" => Ok(Version::Tls13),
        _ => Err(format!("{name} {text} is not supported: TLS12 and TLS13 are")),
    }
}

fn users(value: &Yaml<'_>) -> Result<BTreeMap<String, String>, String> {
    let mut users = BTreeMap::new();
    for (name, value) in entries(value, "basic_auth_users")? {
        let hash = text(value, name)?;
        if name.contains(':') {
            return Err(format!("no user can be called {name}: the name has a colon"));
        }
        // The message does not repeat the hash: somebody may have written the password itself.
        let parts: Result<HashParts, _> = hash.parse();
        parts.map_err(|_| format!("the password of {name} is not a hash that bcrypt has made"))?;
        users.insert(name.to_owned(), hash.to_owned());
    }
    Ok(users)
}

/// Names and values. A name twice is an error of YAML.
fn entries<'y>(
    value: &'y Yaml<'_>,
    of: &str,
) -> Result<impl Iterator<Item = (&'y str, &'y Yaml<'y>)>, String> {
    // A name without anything below it.
    let nothing = matches!(value, Yaml::Value(Scalar::Null));
    let mapping = value.as_mapping();
    if mapping.is_none() && !nothing {
        return Err(format!("{of} has to consist of names and values"));
    }
    let pairs = mapping.into_iter().flatten();
    let named: Option<Vec<_>> = pairs.map(|(name, value)| Some((name.as_str()?, value))).collect();
    let named = named.ok_or_else(|| format!("a name in {of} is not text: put it in quotes"))?;
    Ok(named.into_iter())
}

fn text<'y>(value: &'y Yaml<'_>, name: &str) -> Result<&'y str, String> {
    let text = value.as_str().filter(|text| !text.is_empty());
    text.ok_or_else(|| format!("{name} has to be text"))
}

fn unknown(name: &str, known: &str) -> String {
    format!("{name} is not supported: {known} are")
}

const KNOWN_OF_TLS: &str =
    "cert_file, key_file, client_auth_type, client_ca_file, min_version and max_version";
const KNOWN_OF_AUTH: &str =
    "NoClientCert, VerifyClientCertIfGiven and RequireAndVerifyClientCert are";

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: &str = "$2y$10$QOauhQNbBCuQDKes6eFzPeMqBSjb7Mr5DUmpZ/VcEd00UAV/LDeSi";

    fn parse(text: &str) -> Result<Config, String> {
        Config::parse(text, Path::new("/etc/dlock"))
    }

    #[test]
    fn files_are_beside_the_file_that_names_them() {
        let text = "tls_server_config:\n  cert_file: server.crt\n  key_file: /keys/server.key\n  \
                    min_version: TLS13\n";
        let tls = parse(text).unwrap().tls.unwrap();
        assert_eq!(tls.certificate, Path::new("/etc/dlock/server.crt"));
        assert_eq!(tls.key, Path::new("/keys/server.key"));
        assert_eq!((tls.oldest, tls.newest), (Version::Tls13, Version::Tls13));
        assert!(!tls.wants_certificates());
    }

    #[test]
    fn an_empty_file_switches_nothing_on() {
        for text in ["", "# nothing\n", "basic_auth_users:\n", "{}"] {
            assert_eq!(parse(text), Ok(Config::default()), "{text}");
        }
    }

    #[test]
    fn users_have_hashes() {
        let config = parse(&format!("basic_auth_users:\n  ann: {HASH}\n  '7': {HASH}\n")).unwrap();
        assert_eq!(config.users.keys().collect::<Vec<_>>(), ["7", "ann"]);
    }

    #[test]
    fn whatever_is_not_supported_is_a_mistake() {
        let tls = "tls_server_config: {cert_file: a, key_file: b, ";
        for (text, words) in [
            ("basic_auth_user: {}", "basic_auth_user is not supported"),
            ("http_server_config: {http2: true}", "http_server_config is not supported"),
            ("rate_limit: {}", "rate_limit is not supported"),
            ("basic_auth_users: {ann: secret}", "not a hash that bcrypt has made"),
            (&format!("basic_auth_users: {{7: '{HASH}'}}"), "put it in quotes"),
            (&format!("basic_auth_users: {{'a:b': '{HASH}'}}"), "colon"),
            (&format!("basic_auth_users: {{ann: '{HASH}', ann: '{HASH}'}}"), "duplicated"),
            ("basic_auth_users: [ann]", "names and values"),
            ("tls_server_config: {cert_file: a}", "needs key_file"),
            ("tls_server_config:", "needs cert_file"),
            (&format!("{tls}min_version: TLS11}}"), "min_version TLS11 is not supported"),
            (&format!("{tls}min_version: TLS13, max_version: TLS12}}"), "newer"),
            (&format!("{tls}cipher_suites: [X]}}"), "cipher_suites"),
            (&format!("{tls}curve_preferences: X25519}}"), "curve_preferences is not supported"),
            (&format!("{tls}client_auth_type: RequireAnyClientCert}}"), "RequireAnyClientCert"),
            (&format!("{tls}client_auth_type: RequireAndVerifyClientCert}}"), "need each other"),
            (&format!("{tls}client_ca_file: c}}"), "need each other"),
            ("a: 1\n---\nb: 2", "more than one"),
            ("tls_server_config: [", "line"),
        ] {
            let mistake = parse(text).expect_err(text);
            assert!(mistake.contains(words), "{text}: {mistake}");
            assert!(!mistake.contains("secret"), "{mistake}");
        }
    }
}
