//! Splits a list into addresses, and sorts them.

use super::host::Host;
use super::{Address, Place, read, usage};
use crate::report::error::Error;

/// Reads all addresses of a list, and sorts them: contenders queue at the first node that answers, so clients with the
/// same nodes need the same order.
pub(crate) fn read_all(list: &[String]) -> Result<Vec<Address>, Error> {
    let mut all: Vec<Address> = Vec::new();
    for text in list.iter().flat_map(|part| split(part)) {
        let address = read(text)?;
        if all.iter().any(|other| other.identity() == address.identity()) {
            return usage(&address.name, "is given twice; each address must be a node of its own");
        }
        all.push(address);
    }
    if all.is_empty() {
        return Err(Error::Usage("no node is given; write redis://host:port".to_owned()));
    }
    all.sort_by_cached_key(Address::identity);
    Ok(all)
}

const NO_NODES: &str = "no nodes are given, and DLOCK_NODES names none; write redis://host:port";

impl Address {
    /// Identifies the node within a list: its address; the name of a primary, with its Sentinels in any order; or the
    /// servers of a cluster in any order.
    pub(super) fn identity(&self) -> (String, Vec<Host>) {
        let (text, mut hosts) = match &self.place {
            Place::Server(_) => (self.name.clone(), Vec::new()),
            Place::Sentinel(watched) => {
                let primary_and_database = self.name.splitn(4, '/').nth(3).unwrap_or_default();
                (primary_and_database.to_owned(), watched.sentinels.clone())
            }
            Place::Cluster(seeds) => (String::new(), seeds.hosts.clone()),
        };
        hosts.sort_unstable();
        (text, hosts)
    }

    /// Returns the nodes of `DLOCK_NODES`, for a program that is given no others.
    ///
    /// # Errors
    /// Fails when there are none: a lock on a default server of each machine would exclude no other machine.
    pub fn of_environment(value: Option<&str>) -> Result<Vec<String>, Error> {
        match value.map(str::trim) {
            None | Some("") => Err(Error::Usage(NO_NODES.to_owned())),
            Some(list) => Ok(split(list).map(str::to_owned).collect()),
        }
    }

    /// Splits a list at the commas between its addresses. The commas inside of an address that begins
    /// with `redis+` or `rediss+` separate its hosts: there only a comma before another `scheme://`
    /// ends it. A comma in a password is written `%2C`.
    pub fn split(list: &str) -> impl Iterator<Item = &str> {
        split(list)
    }
}

/// See [`Address::split`].
pub(crate) fn split(list: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(list);
    let parts = std::iter::from_fn(move || {
        let (part, after) = cut(rest?);
        rest = after;
        Some(part)
    });
    parts.map(str::trim)
}

/// Returns the first address, and the rest of the list.
fn cut(list: &str) -> (&str, Option<&str>) {
    let has_several_hosts = begins_with(list, |scheme| scheme.contains('+'));
    let ends = |at: &usize| {
        let after = &list[at + 1..];
        !has_several_hosts || begins_with(after, |_| true)
    };
    let commas = list.match_indices(',').map(|(at, _)| at);
    match commas.into_iter().find(ends) {
        Some(at) => (&list[..at], Some(&list[at + 1..])),
        None => (list, None),
    }
}

/// True if the text begins with a scheme that satisfies `is`.
fn begins_with(text: &str, is: impl Fn(&str) -> bool) -> bool {
    let Some((scheme, _)) = text.trim_start().split_once("://") else { return false };
    let is_scheme = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    !scheme.is_empty() && scheme.chars().all(is_scheme) && is(scheme)
}
