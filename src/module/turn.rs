//! What is done when time has passed: leases that are over, waits that are over, and work that
//! was found where nothing may be written.

use dlock_core::{Host, Instant, Node};

use crate::ffi::context::{Ctx, now};
use crate::ffi::scan::Scan;
use crate::host::Here;
use crate::state::{self, State, Store};

/// How much is done in one turn of the server's event loop. A burst of endings takes several, so
/// that other clients are served in between.
const BUDGET: usize = 300;
/// While writes are paused, work at hand is looked at again so soon.
const PAUSED: u64 = 10_000;

/// What has become of the locks that the server took away, or read.
fn search(ctx: Ctx<'_>, store: &mut Store, leads: bool) {
    for _ in 0..BUDGET {
        let Some(block) = store.taken.pop_first() else { break };
        if !block.is_in_keyspace() {
            // Deleted, or a payload that was refused after it had been read.
            store.index.remove(block);
        } else if block.is_dead() && !store.hears_of_keys {
            // Renamed or moved.
            store.owes_search = true;
        }
        block.unkeep();
    }
    // One that is under way is carried to its end first: else it might never come to it.
    if leads && store.search.is_none() && std::mem::take(&mut store.owes_search) {
        store.search = Some(Scan::new());
    }
    for _ in 0..BUDGET {
        let Some(scan) = &mut store.search else { break };
        if !scan.step(ctx, &mut store.arrivals) {
            store.search = None;
        }
    }
}

/// Replicas learn what is promised, before it is used.
fn tell_promise(ctx: Ctx<'_>, node: &Node, store: &mut Store, may_write: bool, unix: u64) {
    if store.tell_promise && may_write && ctx.has_replicas() {
        ctx.replicate_promise(node.promise(unix));
    }
    store.tell_promise &= !may_write && !node.is_following();
}

/// The alarm has gone off.
pub fn take(ctx: Ctx<'_>) {
    state::with(|state| {
        let time = state.time();
        state.store.alarm.gone_off(time.now);
        state.finish_taken();
        state.begin_if_loaded(ctx);
        let may_write = !state.node.is_following() && !ctx.avoids_traffic();
        let State { node, store } = state;
        tell_promise(ctx, node, store, may_write, time.unix);
        search(ctx, store, !node.is_following());
        let arrivals: Vec<_> = {
            let count = store.arrivals.len().min(BUDGET);
            store.arrivals.drain(..count).collect()
        };
        let silent = node.is_following();
        let mut here = Here::turn(ctx, store, silent);
        let mut put_off = Vec::new();
        for key in arrivals {
            node.pass_on(key.as_key(), here.find(key.as_key()).top());
            if !here.receive(key.as_key(), may_write) {
                put_off.push(key);
            }
        }
        node.sweep(&mut here, time, BUDGET, may_write);
        drop(here);
        if silent {
            store.owes_search |= !put_off.is_empty();
        } else {
            store.arrivals.extend(put_off);
        }
        state.take_notes();
        let now = now();
        if let Some(at) = state.next(now)
            && state.store.alarm.can_be_trusted()
        {
            let earliest = if may_write { now } else { Instant(now.0 + PAUSED) };
            state.store.alarm.set(now, at.max(earliest));
        }
    });
}
