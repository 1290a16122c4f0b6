//! What is done when time has passed: leases that are over, waits that are over, and work that
//! was found where nothing may be written.

use dlock_core::{Host, Instant};

use crate::ffi::context::{Ctx, now};
use crate::keyspace::Keyspace;
use crate::state::{self, State};

/// How much is done in one turn of the server's event loop. A burst of endings takes several, so
/// that other clients are served in between.
const BUDGET: usize = 300;
/// While writes are paused, work at hand is looked at again so soon.
const PAUSED: u64 = 10_000;

/// The alarm has gone off.
pub fn take(ctx: Ctx<'_>) {
    state::with(|state| {
        let time = state.time();
        state.store.alarm.gone_off(time.now);
        state.finish_taken();
        state.begin_if_loaded(ctx);
        let may_write = !state.node.is_following() && !ctx.avoids_traffic();
        let State { node, store } = state;
        let aside = store.migrations.aside();
        store.promises.tell_replicas(ctx, node, may_write, time, aside);
        store.migrations.stop(ctx);
        if may_write {
            store.migrations.tell_floor(ctx, node.fence());
        }
        let silent = node.is_following();
        store.strays.search(ctx, &mut store.index, !silent, BUDGET);
        let arrivals = store.strays.arrivals(BUDGET);
        let mut keyspace = Keyspace::turn(ctx, store, silent);
        let mut put_off = Vec::new();
        for key in arrivals {
            node.pass_on(key.as_key(), keyspace.find(key.as_key()).top());
            if !keyspace.receive(key.as_key(), may_write) {
                put_off.push(key);
            }
        }
        node.sweep(&mut keyspace, time, BUDGET, may_write);
        drop(keyspace);
        store.strays.put_off(put_off, silent);
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
