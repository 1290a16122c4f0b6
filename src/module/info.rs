//! `INFO dlock`.

use crate::fences;
use crate::ffi::info::InfoLines;
use crate::reply::About;
use crate::state::{self, State};
use crate::stats::percentile;

/// Writes the section.
pub fn write(lines: &mut InfoLines) {
    state::with(|state| {
        let about = About::of(state);
        write_state(lines, state, &about);
    });
}

fn write_state(lines: &mut InfoLines, state: &State, about: &About) {
    let stats = &state.store.stats;
    lines.text("version", env!("CARGO_PKG_VERSION"));
    lines.text("node_id", &about.node_id);
    lines.number("boot", about.boot);
    lines.text("granting", about.grants);
    lines.number("refusing_ms", about.refusing_ms);
    lines.number("leases", state.store.index.leases() as u64);
    let memory = state.store.memory();
    lines.number("memory", memory.used);
    lines.number("memory_most", if memory.most == u64::MAX { 0 } else { memory.most });
    lines.number("evicted", state.store.strays.evicted.len() as u64);
    lines.number("evicted_memory", state.store.strays.evicted.bytes() as u64);
    lines.number("waiters", state.node.waiters() as u64);
    lines.number("places", state.node.places() as u64);
    lines.number("places_refused", state.node.places_refused());
    lines.number("leases_away", state.node.leases_away() as u64);
    lines.number("grants", stats.grants);
    lines.number("denials", stats.denials);
    lines.number("handovers", stats.hand_overs);
    lines.number("releases", stats.releases);
    lines.number("expiries", stats.expiries);
    lines.number("extensions", stats.extensions);
    lines.number("breaks", stats.breaks);
    lines.number("ephemeral_ends", stats.ephemeral_ends);
    lines.number("fence", state.node.fence().0);
    lines.number("marks_removed", fences::marks_removed());
    lines.number("fence_reserved", about.fence_reserved);
    lines.number("fence_ahead_ms", about.fence_ahead_ms);
    lines.number("lease_bound_ms", about.lease_bound_ms);
    lines.text("durable", about.durable);
    lines.text("state_file", &about.state_file);
    lines.text("state_file_error", &about.state_file_error);
    lines.number("quarantine_ms", about.quarantine_ms);
    lines.text("quarantine_reason", &about.quarantine_reason);
    for (name, histogram) in [("wait", &stats.waits), ("hold", &stats.holds)] {
        for (suffix, at) in [("p50", 50.0), ("p90", 90.0), ("p99", 99.0), ("max", 100.0)] {
            let value = percentile(histogram.as_ref(), at);
            lines.text(&format!("{name}_{suffix}_ms"), &value);
        }
    }
}
