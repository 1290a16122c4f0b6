//! Codes of server errors, and their meaning.

use std::time::Duration;

use dlock_core::quorum::Obstacle;
use dlock_core::reason::{TOO_FAR, TOO_LONG, TOO_MANY};
use dlock_core::words::Millis;

/// The code of a node that cannot write its state file.
pub(crate) const NOT_DURABLE: &str = "NOTDURABLE";

/// The code at the beginning of a server's error.
pub(crate) fn code(text: &str) -> &str {
    text.split(' ').next().unwrap_or_default()
}

/// Classifies a refusal: may the same request succeed later?
pub(crate) fn why(text: &str) -> Obstacle {
    match code(text) {
        "QUARANTINE" => {
            let left = quarantine(text).unwrap_or_default();
            Obstacle::Quarantine(Millis(u64::try_from(left.as_millis()).unwrap_or(u64::MAX)))
        }
        NOT_DURABLE => Obstacle::NotDurable,
        // A completion record that finds no room finds none before the lease ends.
        _ if text.starts_with("TOOMANY done") => Obstacle::Never,
        TOO_FAR | TOO_MANY | "OOM" | "LOADING" | "BUSY" | "MASTERDOWN" | "UNBLOCKED"
        | "CLUSTERDOWN" | "TRYAGAIN" | "MISCONF" | "NOREPLICAS" => Obstacle::Busy,
        _ if text.starts_with("ERR max number of clients") => Obstacle::Busy,
        _ => Obstacle::Never,
    }
}

/// True if a request for a key that this node had is refused for the moment only, for example during a
/// fail-over, or while the node loads its data.
pub(crate) fn may_pass(text: &str) -> bool {
    why(text) != Obstacle::Never || code(text) == "READONLY"
}

/// The largest fence that a node accepts: `TOOFAR N …`.
pub(crate) fn most(text: &str) -> Option<u64> {
    let mut words = text.split(' ');
    (words.next() == Some(TOO_FAR)).then(|| words.next()?.parse().ok())?
}

/// The longest lease that a node grants, in ms: `TOOLONG N …`.
pub(crate) fn longest(text: &str) -> Option<u64> {
    let mut words = text.split(' ');
    (words.next() == Some(TOO_LONG)).then(|| words.next()?.parse().ok())?
}

/// Time that a node stays in quarantine: `QUARANTINE N ms until grants resume: …`.
pub(crate) fn quarantine(text: &str) -> Option<Duration> {
    let mut words = text.split(' ');
    let is_quarantine = words.next() == Some("QUARANTINE");
    let millis = words.next().and_then(|millis| millis.parse().ok()).unwrap_or(0);
    is_quarantine.then(|| Duration::from_millis(millis))
}
