//! Names and passwords, as browsers and Prometheus send them.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper::HeaderMap;
use hyper::header::AUTHORIZATION;
use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

/// The users that may log in.
#[derive(Clone)]
pub struct Users {
    hashes: Arc<BTreeMap<String, String>>,
    passwords: Arc<Passwords>,
}

/// A memory of checked passwords: to check one takes long, on purpose.
pub struct Passwords {
    /// Those that were right: a hash of name, stored hash and password.
    right: Mutex<HashSet<[u8; 32]>>,
    /// One is checked at a time, so that nobody keeps the machine busy with wrong ones.
    turn: Arc<Semaphore>,
}

impl Default for Passwords {
    fn default() -> Passwords {
        Passwords { right: Mutex::default(), turn: Arc::new(Semaphore::new(1)) }
    }
}

impl Users {
    pub fn new(hashes: BTreeMap<String, String>, passwords: Arc<Passwords>) -> Users {
        Users { hashes: Arc::new(hashes), passwords }
    }

    /// True if a request names one of them, with the password.
    pub async fn know(&self, headers: &HeaderMap) -> bool {
        let Some((name, password)) = sent(headers) else { return false };
        // Somebody who is not there takes as long: nobody learns which names there are.
        let known = self.hashes.get(&name);
        let Some(hash) = known.or_else(|| self.hashes.values().next()).cloned() else {
            return false;
        };
        let id = id(&name, &hash, &password);
        if known.is_some() && self.passwords.right().contains(&id) {
            return true;
        }
        let turn = Arc::clone(&self.passwords.turn).acquire_owned().await;
        // A client may break off. The check goes on all the same, and with it the turn.
        let check = move || turn.is_ok() && bcrypt::verify(password, &hash).unwrap_or(false);
        let checked = spawn_blocking(check).await;
        let is_right = known.is_some() && checked.unwrap_or(false);
        if is_right {
            let mut right = self.passwords.right();
            // Of users who are gone, too.
            if right.len() >= MOST {
                right.clear();
            }
            right.insert(id);
        }
        is_right
    }
}

impl Passwords {
    fn right(&self) -> std::sync::MutexGuard<'_, HashSet<[u8; 32]>> {
        self.right.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Name and password of a request.
fn sent(headers: &HeaderMap) -> Option<(String, String)> {
    let header = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, rest) = header.split_once(' ')?;
    let plain = STANDARD.decode(rest.trim()).ok()?;
    let plain = String::from_utf8(plain).ok()?;
    let (name, password) = plain.split_once(':')?;
    scheme.eq_ignore_ascii_case("basic").then(|| (name.to_owned(), password.to_owned()))
}

fn id(name: &str, hash: &str, password: &str) -> [u8; 32] {
    let mut digest = Sha256::new();
    for part in [name, hash, password] {
        digest.update(part.len().to_le_bytes());
        digest.update(part);
    }
    digest.finalize().into()
}

/// Limit of remembered right passwords.
const MOST: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(value: &str) -> HeaderMap {
        HeaderMap::from_iter([(AUTHORIZATION, value.parse().unwrap())])
    }

    #[test]
    fn a_name_ends_at_the_first_colon() {
        let text = format!("basic {}", STANDARD.encode("ann:a:b"));
        assert_eq!(sent(&headers(&text)), Some(("ann".to_owned(), "a:b".to_owned())));
        for nonsense in ["Basic", "Basic !", "Bearer YW5uOmE=", "Basic YW5u", ""] {
            assert_eq!(sent(&headers(nonsense)), None, "{nonsense}");
        }
    }
}
