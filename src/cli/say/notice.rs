//! Notices for operators, as events.

use dlock_client::Notice;
use serde_json::{Value, json};

use super::bytes;
use super::duration::millis;
use super::stderr::prefixed;

/// Lines for people, or the event on a line of its own.
pub fn text(notice: &Notice, as_json: bool) -> String {
    match as_json {
        true => bytes::line(&event(notice)),
        false => prefixed(&notice.to_string()),
    }
}

/// The event for programs.
pub fn event(notice: &Notice) -> Value {
    let message = notice.to_string();
    match notice {
        Notice::Stranger { node, .. } => {
            json!({"event": "stranger", "node": node, "message": message})
        }
        Notice::Promoted { node, server, quarantine } => json!({
            "event": "promoted",
            "node": node,
            "server": server,
            "quarantine_ms": millis(*quarantine),
            "message": message,
        }),
        Notice::Outage { key, .. } => bytes::event("outage", key, json!({"message": message})),
        Notice::NotReleased { key, within, .. } => {
            let others = json!({"within_ms": millis(*within), "message": message});
            bytes::event("not_released", key, others)
        }
        Notice::Back { key } => bytes::event("back", key, json!({"message": message})),
        _ => json!({"event": "notice", "message": message}),
    }
}
