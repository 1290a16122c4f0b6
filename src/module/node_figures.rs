//! The figures of a node, under the same names for DLOCK.NODE and INFO.

use dlock_core::Millis;

use crate::durability::Refusing;
use crate::ffi::context::{Ctx, unix_micros};
use crate::state::State;

/// The value of a figure.
pub enum Figure {
    Number(u64),
    Text(String),
}

/// Returns the figures: if this node grants, its promise, and its numbers of leases and waiters.
///
/// The names are as in DLOCK.NODE; INFO and JSON write `_` for `-`.
pub fn figures(state: &mut State, ctx: Ctx<'_>) -> [(&'static str, Figure); 17] {
    use Figure::{Number, Text};
    let time = state.time();
    let refusing = state.refusing(time);
    let (node, writer) = (&state.node, &state.store.durability.writer);
    let (promise, path) = (node.promise(time), writer.path());
    let quarantine = node.durable.in_quarantine().filter(|_| node.is_in_quarantine(time.now));
    let left = quarantine.map_or(Millis(0), |quarantine| quarantine.left(time.now));
    let granting = refusing.map(Refusing::name).or_else(|| ctx.refusal()).unwrap_or("yes");
    let fence_ahead_ms = node.durable.counter.last().0.saturating_sub(unix_micros()) / 1000;
    let durable = match (path, writer.failure()) {
        (None, _) => "no",
        (Some(_), None) => "yes",
        (Some(_), Some(_)) => "failing",
    };
    let state_file = path.map_or(String::new(), |path| path.display().to_string());
    [
        ("version", Text(env!("CARGO_PKG_VERSION").to_owned())),
        ("node-id", Text(format!("{:032x}", writer.node_id()))),
        ("boot", Number(writer.boot())),
        ("granting", Text(granting.to_owned())),
        ("fence", Number(node.durable.counter.last().0)),
        ("fence-reserved", Number(path.map_or(0, |_| promise.fence.0))),
        // The largest fence's lead over the wall clock.
        ("fence-ahead-ms", Number(fence_ahead_ms)),
        ("lease-bound-ms", Number(promise.bound.0)),
        ("durable", Text(durable.to_owned())),
        ("state-file", Text(state_file)),
        ("state-file-error", Text(writer.failure().unwrap_or_default().to_owned())),
        ("quarantine-ms", Number(left.0)),
        ("quarantine-reason", Text(quarantine.map_or(String::new(), |q| q.cause.to_string()))),
        ("leases", Number(state.store.index.leases() as u64)),
        ("waiters", Number(node.waiting.requests() as u64)),
        ("places", Number(node.waiting.places() as u64)),
        ("places-refused", Number(node.waiting.places_refused())),
    ]
}
