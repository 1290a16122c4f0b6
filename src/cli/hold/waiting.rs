//! The reason of a wait for a lock, as far as the nodes report it.

use std::time::Duration;

use dlock_client::{Client, HolderInfo, Key};
use serde_json::json;

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
    /// No node names a holder: the lock is free by now, or no majority grants it. An outage is an event of its own.
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
        shut.map_or(Hindrance::Unknown, Hindrance::Evicted)
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
            Hindrance::Unknown => format!("waiting for '{key}'"),
        }
    }

    /// The event for programs.
    pub fn json(&self, key: &Key) -> serde_json::Value {
        let (why, holder, left) = match self {
            Hindrance::Held(holder) => ("held", Some(holder), None),
            Hindrance::Foreign => ("foreign", None, None),
            Hindrance::Evicted(left) => ("evicted", None, Some(millis(*left))),
            Hindrance::Unknown => ("unknown", None, None),
        };
        let holder = holder.map(|holder| {
            let mut object = json!({});
            bytes::insert(&mut object, "meta", &holder.meta);
            object["held_ms"] = millis(holder.held).into();
            object
        });
        let others = json!({"why": why, "holder": holder, "left_ms": left});
        bytes::event("waiting", key, others)
    }
}

fn by(holder: &HolderInfo) -> String {
    match &holder.address {
        _ if !holder.meta.is_empty() => format!(" by {}", bytes::shown(&holder.meta)),
        Some(address) => format!(" by {address}"),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
