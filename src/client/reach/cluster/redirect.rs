//! Redirects of a cluster's servers.

use crate::reach::address::host::Host;
use crate::report::code::code;

/// A redirect: the next step for a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Redirect {
    /// The slot belongs to this server.
    Moved(u16, Host),
    /// Ask this server once: it is importing the slot.
    Ask(Host),
    /// Ask the same server again, in a moment.
    Again,
    /// Ask again when the slot's server is known again.
    Lost,
}

impl Redirect {
    /// Reads the error of a server. An empty host means the answering server's own.
    pub(crate) fn read(error: &str, own: &str) -> Option<Redirect> {
        match code(error) {
            "MOVED" => moved(error, own).map(|(slot, host)| Redirect::Moved(slot, host)),
            "ASK" => moved(error, own).map(|(_, host)| Redirect::Ask(host)),
            // A request that waits gets this error, too, when its slot leaves.
            "TRYAGAIN" => Some(Redirect::Again),
            // The server has become a replica.
            "UNBLOCKED" | "READONLY" | "MASTERDOWN" => Some(Redirect::Lost),
            _ => None,
        }
    }

    /// True if an error is a redirect, whether it can be read or not.
    pub(crate) fn is(error: &str) -> bool {
        ["MOVED", "ASK"].contains(&code(error)) || Redirect::read(error, "").is_some()
    }
}

/// `MOVED 3999 127.0.0.1:6381`
fn moved(error: &str, own: &str) -> Option<(u16, Host)> {
    let mut words = error.split(' ').skip(1);
    let slot = words.next()?.parse().ok()?;
    let (name, port) = words.next()?.rsplit_once(':')?;
    let name = if ["", "?"].contains(&name) { own } else { name };
    Some((slot, Host::told(name, port.parse().ok()?)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_are_read_and_an_empty_host_means_the_servers_own() {
        let read = |error| Redirect::read(error, "own");
        let moved = |host| Some(Redirect::Moved(3999, Host::new(host, 6381)));
        assert_eq!(read("MOVED 3999 127.0.0.1:6381"), moved("127.0.0.1"));
        assert_eq!(read("MOVED 3999 :6381"), moved("own"));
        assert_eq!(read("MOVED 3999 ?:6381"), moved("own"));
        assert_eq!(read("MOVED 3999 ::1:6381"), moved("::1"));
        assert_eq!(read("ASK 3999 host:6381"), Some(Redirect::Ask(Host::new("host", 6381))));
        assert_eq!(read("TRYAGAIN the slot"), Some(Redirect::Again));
        assert_eq!(read("READONLY You"), Some(Redirect::Lost));
        for other in ["MOVED", "MOVED x a:1", "MOVED 1 a", "ERR MOVED 1 a:1", "CLUSTERDOWN"] {
            assert_eq!(read(other), None, "{other}");
        }
        for nowhere in ["a:0", "a:70000", "a:-1", "a\x1b:1", "a/b:1"] {
            let error = format!("ASK 3999 {nowhere}");
            assert_eq!(Redirect::read(&error, "own"), None, "{nowhere}");
        }
    }
}
