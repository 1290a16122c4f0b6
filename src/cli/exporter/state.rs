//! The content of the page, as JSON.

use dlock_client::HolderInfo;
use serde_json::{Value, json};

use crate::say::bytes;
use crate::say::duration::millis;
use crate::watch::look::{HotKey, NodeLook};
use crate::watch::pace::Pace;
use crate::watch::{Look, Seen};

/// Returns the state of all nodes.
pub fn of(look: &Look, shows_meta: bool) -> Value {
    let nodes: Vec<Value> = look.nodes.iter().map(node).collect();
    let hot: Vec<Value> = look.hot().into_iter().map(|key| hot_key(key, shows_meta)).collect();
    json!({"nodes": nodes, "hot": hot})
}

fn node(seen: &Seen) -> Value {
    match &seen.look {
        Ok(look) => about(&seen.name, look, &seen.pace),
        Err(trouble) => json!({"node": seen.name, "error": trouble.words}),
    }
}

fn about(name: &str, look: &NodeLook, pace: &Pace) -> Value {
    json!({
        "node": name,
        "granting": look.text("granting"),
        "quarantine_ms": look.number("quarantine_ms"),
        "quarantine_reason": look.text("quarantine_reason"),
        "durable": look.text("durable"),
        "leases": look.number("leases"),
        "waiters": look.number("waiters"),
        "places": look.number("places"),
        "grants_per_second": pace.grants,
        "p99_wait_ms": pace.p99_wait.map(|wait| wait.as_secs_f64() * 1000.0),
        "hot_error": look.hot.as_ref().err().map(|trouble| &trouble.words),
    })
}

fn hot_key(key: &HotKey, shows_meta: bool) -> Value {
    let holder = key.lock.as_ref().and_then(|lock| lock.holders.first());
    json!({
        "key": bytes::shown(&key.name),
        "is_whole": key.is_whole,
        "db": key.db,
        "waited_ms": millis(key.waited),
        "longest_wait_ms": millis(key.longest),
        "waiting": key.waiting,
        "grants": key.grants,
        "handovers": key.hand_overs,
        "denials": key.denials,
        "holding": key.lock.as_ref().map(|lock| lock.holding),
        "holder": holder.map(|holder| held_by(holder, shows_meta)),
        "done_ms": key.lock.as_ref().and_then(|lock| Some(millis(lock.done.as_ref()?.since))),
    })
}

fn held_by(holder: &HolderInfo, shows_meta: bool) -> Value {
    json!({
        "id": holder.id,
        "held_ms": millis(holder.held),
        "left_ms": millis(holder.ttl),
        "meta": shows_meta.then(|| bytes::shown(&holder.meta)),
    })
}
