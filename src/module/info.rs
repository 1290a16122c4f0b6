//! `INFO dlock`.

use crate::ffi::done;
use crate::ffi::info::InfoLines;
use crate::node_figures::{self, Figure};
use crate::state::{self, State};

/// Writes the section.
pub fn write(lines: &mut InfoLines) {
    state::with(|state| {
        let Some(ctx) = state.store.alarm.ctx() else { return };
        for (name, figure) in node_figures::figures(state, ctx) {
            let name = name.replace('-', "_");
            match figure {
                Figure::Number(value) => lines.number(&name, value),
                Figure::Text(value) => lines.text(&name, &value),
            }
        }
        write_more(lines, state);
    });
}

/// Writes the figures that DLOCK.NODE does not have.
fn write_more(lines: &mut InfoLines, state: &State) {
    let stats = &state.store.stats;
    let memory = state.store.memory();
    for (name, value) in [
        ("memory", memory.used + state.node.memory()),
        ("memory_most", if memory.most == u64::MAX { 0 } else { memory.most }),
        ("keys_ahead", state.node.durable.counter.keys_ahead() as u64),
        ("grants", stats.grants),
        ("denials", stats.denials),
        ("handovers", stats.hand_overs),
        ("releases", stats.releases),
        ("dones", stats.dones),
        ("done_keys", done::number()),
        ("expiries", stats.expiries),
        ("extensions", stats.extensions),
        ("breaks", stats.breaks),
        ("ephemeral_ends", stats.ephemeral_ends),
    ] {
        lines.number(name, value);
    }
    for (name, lengths) in [("wait", &stats.waits), ("hold", &stats.holds)] {
        for (suffix, percent) in [("p50", 50.0), ("p90", 90.0), ("p99", 99.0)] {
            let micros = lengths.percentile(percent).unwrap_or(0);
            let millis = format!("{}.{:03}", micros / 1000, micros % 1000);
            lines.text(&format!("{name}_{suffix}_ms"), &millis);
        }
        lines.text(&format!("{name}_us"), &lengths.line());
    }
}
