//! `INFO dlock`.

use crate::ffi::load::InfoLines;
use crate::state::{self, State};
use crate::stats::percentile;

/// Writes the section.
pub fn write(lines: &mut InfoLines) {
    state::with(|state| write_state(lines, state));
}

fn write_state(lines: &mut InfoLines, state: &State) {
    let stats = &state.store.stats;
    lines.text("version", env!("CARGO_PKG_VERSION"));
    lines.text("node_id", &state.store.node_id);
    lines.number("leases", state.store.index.leases() as u64);
    lines.number("waiters", state.node.waiters() as u64);
    lines.number("grants", stats.grants);
    lines.number("denials", stats.denials);
    lines.number("handovers", stats.hand_overs);
    lines.number("releases", stats.releases);
    lines.number("expiries", stats.expiries);
    lines.number("extensions", stats.extensions);
    lines.number("breaks", stats.breaks);
    lines.number("ephemeral_ends", stats.ephemeral_ends);
    lines.number("fence", state.node.fence().0);
    lines.text("durable", "no");
    for (name, histogram) in [("wait", &stats.waits), ("hold", &stats.holds)] {
        for (suffix, at) in [("p50", 50.0), ("p90", 90.0), ("p99", 99.0), ("max", 100.0)] {
            let value = percentile(histogram.as_ref(), at);
            lines.text(&format!("{name}_{suffix}_ms"), &value);
        }
    }
}
