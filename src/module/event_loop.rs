//! The calls of the server's event loop: they end leases and waits that are over, and do work that was found
//! where nothing may be written.

use dlock_core::{Host, Instant};

use crate::ffi::context::{Ctx, now};
use crate::keyspace::Keyspace;
use crate::server_events::migration;
use crate::state::{self, State};

/// While writes are paused, the event loop retries pending work after this many µs.
const PAUSED: u64 = 10_000;

/// Does all due work when the timer fires.
pub fn timer_fired(ctx: Ctx<'_>) {
    let stop = state::with(|state| {
        let time = state.time();
        state.store.alarm.gone_off(time.now);
        state.finish_taken();
        state.begin_if_loaded(ctx);
        let may_write = !state.node.is_following() && !ctx.avoids_traffic();
        let State { node, store } = state;
        let aside = store.arriving.slots.aside();
        store.durability.tell_replicas(ctx, node, may_write, time, aside);
        let stop = store.arriving.slots.take_stop();
        if may_write {
            store.arriving.slots.tell_floors(ctx, &node.durable);
        }
        while store.moved_keys.check_taken(&mut store.index) {}
        let dead = if may_write { store.moved_keys.search(ctx) } else { Vec::new() };
        let mut keyspace = Keyspace::event_loop(ctx, store, node.is_following());
        for key in dead {
            node.pass_on(key.as_key(), keyspace.find(key.as_key()).top());
            keyspace.remove_dead(key.as_key());
        }
        let budget = node.budget();
        node.sweep(&mut keyspace, time, budget, may_write);
        drop(keyspace);
        state.take_notes();
        let now = now();
        if let Some(at) = state.next(now)
            && state.store.alarm.can_be_trusted()
        {
            let earliest = if may_write { now } else { Instant(now.0 + PAUSED) };
            state.store.alarm.set(now, at.max(earliest));
        }
        stop
    });
    // The server may call back.
    if let Some(stop) = stop.flatten() {
        migration::cancel(ctx, &stop);
    }
}

/// Runs about ten times a second. The timer follows the wall clock, which may have been set back.
pub fn cron(ctx: Ctx<'_>) {
    state::with(|state| {
        let now = now();
        state.store.replication.look(ctx);
        state.node.look_at_places(now, ctx.avoids_traffic());
        state.node.look_at_queues(now);
        state.begin_if_loaded(ctx);
        state.keep_state_file(now);
        state.store.alarm.trust();
        state.set_alarm(now);
        if state.next(now).is_some_and(|at| at <= now) {
            state.store.alarm.reset(now, now);
        }
    });
}
