//! The reason of a wait for a lock, as far as the nodes report it.

use std::sync::Arc;
use std::time::Duration;

use dlock_client::operator::{Fields, Node};
use dlock_client::{Client, Guard, HolderInfo, Key};
use serde_json::{Map, json};

use crate::say::bytes;
use crate::say::duration::{millis, shown};

/// The reason of a wait.
pub enum Hindrance {
    /// A client holds the lock. This is one of the holders.
    Held(Box<HolderInfo>),
    /// A plain string is at the key: a foreign lock, without a known holder.
    Foreign,
    /// The lock was evicted. Its lease would have ended after this time.
    Evicted(Duration),
    /// Nodes may have forgotten locks. A majority grants again after this time.
    Quarantine(Duration),
    /// The reason is gone by now.
    Unknown,
}

impl Hindrance {
    /// Asks the nodes for the reason.
    pub async fn of(client: &Client, key: &Key) -> Hindrance {
        let answers = client.inspect(key).await.unwrap_or_default();
        let known = answers.into_iter().filter_map(|(_, answer)| answer.ok().flatten());
        let mut shut = None;
        for inspection in known {
            if inspection.is_foreign() {
                return Hindrance::Foreign;
            }
            if inspection.is_evicted() {
                shut = shut.max(inspection.expires);
            }
            if let Some(holder) = inspection.holders.into_iter().next() {
                return Hindrance::Held(Box::new(holder));
            }
        }
        if let Some(left) = shut {
            return Hindrance::Evicted(left);
        }
        let mut quarantines = Vec::new();
        for node in client.nodes() {
            quarantines.extend(quarantine(node, key).await);
        }
        match until_majority(quarantines, client.size()) {
            Some(left) if !left.is_zero() => Hindrance::Quarantine(left),
            _ => Hindrance::Unknown,
        }
    }

    /// The text for people.
    pub fn text(&self, key: &Key) -> String {
        match self {
            Hindrance::Held(holder) => {
                format!("waiting for '{key}', held{} for {} so far", by(holder), shown(holder.held))
            }
            Hindrance::Foreign => {
                format!("waiting for '{key}', a plain string of an older kind of lock")
            }
            Hindrance::Evicted(left) => {
                format!("waiting for '{key}', which was evicted and is shut for {}", shown(*left))
            }
            Hindrance::Quarantine(left) => format!(
                "waiting for '{key}': nodes may have forgotten locks, and grant none for {} more",
                shown(*left)
            ),
            Hindrance::Unknown => format!("waiting for '{key}'"),
        }
    }

    /// The event for programs.
    pub fn json(&self, key: &Key) -> serde_json::Value {
        let (why, holder, left) = match self {
            Hindrance::Held(holder) => ("held", Some(holder), None),
            Hindrance::Foreign => ("foreign", None, None),
            Hindrance::Evicted(left) => ("evicted", None, Some(millis(*left))),
            Hindrance::Quarantine(left) => ("quarantine", None, Some(millis(*left))),
            Hindrance::Unknown => ("unknown", None, None),
        };
        let holder = holder.map(|holder| {
            let mut object = Map::new();
            bytes::insert(&mut object, "meta", &holder.meta);
            object.insert("held_ms".to_owned(), millis(holder.held).into());
            object
        });
        let others = json!({"why": why, "holder": holder, "left_ms": left});
        bytes::event("waiting", key, others)
    }
}

/// The text after a wait.
pub fn over(guard: &Guard, after: Duration) -> String {
    let (key, fence) = (guard.key(), guard.fence());
    format!("holding '{key}' after {} (fence {fence})", shown(after))
}

/// The event after a wait, for programs.
pub fn acquired(guard: &Guard, after: Duration) -> serde_json::Value {
    let others = json!({"fence": guard.fence(), "waited_ms": millis(after)});
    bytes::event("acquired", guard.key(), others)
}

fn by(holder: &HolderInfo) -> String {
    match &holder.address {
        _ if !holder.meta.is_empty() => format!(" by {}", bytes::shown(&holder.meta)),
        Some(address) => format!(" by {address}"),
        None => String::new(),
    }
}

/// Asks a node for the rest of its quarantine; none if it does not report one.
async fn quarantine(node: &Arc<Node>, key: &Key) -> Option<Duration> {
    let answer = node.send_where(key, &redis::cmd("DLOCK.NODE")).await.ok()?;
    Fields::of(&answer)?.millis("quarantine-ms")
}

/// Time until a majority is out of quarantine. None if too few nodes report theirs.
fn until_majority(mut quarantines: Vec<Duration>, nodes: usize) -> Option<Duration> {
    quarantines.sort();
    quarantines.get(nodes / 2).copied()
}

/// A shorter wait is not reported, and causes no request to the nodes.
pub const SOON: Duration = Duration::from_millis(200);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_majority_is_back_when_the_middle_one_is() {
        let left = |seconds: &[u64], nodes| {
            let all = seconds.iter().map(|&seconds| Duration::from_secs(seconds)).collect();
            until_majority(all, nodes).map(|left| left.as_secs())
        };
        assert_eq!(left(&[9, 0, 5], 3), Some(5));
        assert_eq!(left(&[9, 0], 3), Some(9));
        assert_eq!(left(&[9], 3), None);
        assert_eq!(left(&[7], 1), Some(7));
    }

    #[test]
    fn a_stranger_cannot_forge_a_line() {
        let holder = HolderInfo::default();
        assert_eq!(
            Hindrance::Held(Box::new(holder)).text(&"a\nb".into()),
            r"waiting for 'a\x0ab', held for 0 ms so far"
        );
        assert_eq!(Hindrance::Unknown.text(&"a".into()), "waiting for 'a'");
    }
}
