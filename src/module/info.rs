//! `INFO dlock`.

use crate::about::{self, Figure};
use crate::fences;
use crate::ffi::info::InfoLines;
use crate::state::{self, State, Store};

/// Writes the section.
pub fn write(lines: &mut InfoLines) {
    state::with(|state| {
        for (name, figure) in about::figures(state) {
            let name = name.replace('-', "_");
            match figure {
                Figure::Number(value) => lines.number(&name, value),
                Figure::Text(value) => lines.text(&name, &value),
            }
        }
        write_more(lines, state);
    });
}

/// What DLOCK.NODE does not say.
fn write_more(lines: &mut InfoLines, state: &State) {
    let Store { stats, strays, .. } = &state.store;
    let memory = state.store.memory();
    for (name, value) in [
        ("memory", memory.used),
        ("memory_most", if memory.most == u64::MAX { 0 } else { memory.most }),
        ("evicted", strays.evicted.len() as u64),
        ("evicted_memory", strays.evicted.bytes() as u64),
        ("grants", stats.grants),
        ("denials", stats.denials),
        ("handovers", stats.hand_overs),
        ("releases", stats.releases),
        ("expiries", stats.expiries),
        ("extensions", stats.extensions),
        ("breaks", stats.breaks),
        ("ephemeral_ends", stats.ephemeral_ends),
        ("marks_removed", fences::marks_removed()),
        ("slow_waits", state.node.slow().waits()),
        ("long_holds", state.node.slow().holds()),
    ] {
        lines.number(name, value);
    }
    for (name, times) in [("wait", &stats.waits), ("hold", &stats.holds)] {
        for (suffix, at) in [("p50", 50.0), ("p90", 90.0), ("p99", 99.0), ("max", 100.0)] {
            lines.text(&format!("{name}_{suffix}_ms"), &times.percentile(at));
        }
        lines.text(&format!("{name}_us"), &times.lengths.line());
    }
}
