//! What the server does to locks, and how they take it.
//!
//! Everything here can run in the middle of somebody else's command, so it writes nothing: it
//! answers waiters, brings the index up to date, and leaves the rest to the next turn, which
//! comes before the server sleeps.

use dlock_core::{ClientId, Key, WaitOutcome, WaiterId};

use crate::ffi::alarm::OnAlarm;
use crate::ffi::block::Block;
use crate::ffi::context::{Ctx, now, unix_micros};
use crate::ffi::waiter::{Callbacks, Handle};
use crate::server_memory::ServerMemory;
use crate::state::{self, Note, State, Store};

/// The module is being loaded. The server forgets what it has registered until here, should this
/// fail; so nothing may be subscribed to before.
pub fn starting(ctx: Ctx<'_>) -> Result<(), String> {
    state::with(|state| state.open_books(ctx)).unwrap_or(Ok(()))
}

/// The module has been loaded. The data set has not, so nothing is decided yet.
pub fn started(ctx: Ctx<'_>, hears_of_keys: bool, on_alarm: OnAlarm, for_waiters: Callbacks) {
    let memory = ServerMemory::ask(ctx);
    state::with(|state| {
        state.store.server_memory = memory;
        state.store.alarm.install(ctx, on_alarm);
        state.store.waiters.install(for_waiters);
        state.store.strays.install(hears_of_keys);
        state.node.is_deaf = !hears_of_keys;
        state.node.follow(&mut state.store.waiters);
        let now = now();
        state.store.alarm.set(now, now);
    });
}

/// The server shuts down. Everything that it saves has been saved.
pub fn shut_down() {
    state::with(State::close_books);
}

/// A configuration parameter has changed.
pub fn configured(ctx: Ctx<'_>) {
    audience();
    let memory = ServerMemory::ask(ctx);
    state::with(|state| state.store.server_memory = memory);
    // Asked outside of `with`, for the answer comes through the server.
    let kept = state::with(|state| state.store.promises.log_is_kept).unwrap_or(false);
    if kept && !ctx.log_is_complete() {
        state::with(State::note_incomplete_log);
    }
}

/// The log is about to be switched, on or off. The server may take that back without a word, if it
/// refuses another setting in the same command, and begins a new log then.
pub fn log_is_switched() {
    state::with(|state| {
        if state.store.promises.log_is_kept {
            state.note_incomplete_log();
        }
    });
}

/// A value was taken from its key by a command that is not ours.
pub fn unlinked(key: Key<'_>, block: Block) {
    let done = state::with(|state| {
        state.unlinked(key, block);
        state.store.strays.depart();
    });
    if done.is_none() && block.keep() {
        state::note(Note::Unlinked(key.to_owned(), block));
    }
}

/// Something has happened to a key, or to one of this name in another database.
pub fn key_event(event: &[u8], key: Key<'_>, elsewhere: bool) {
    let arrived = matches!(event, b"restore" | b"rename_to" | b"move_to");
    let done = state::with(|state| {
        if event == b"evicted" && state.evicted(key) {
            return;
        }
        state.finish_taken();
        if arrived {
            state.store.strays.arrive(key, elsewhere);
        }
        state.node.maybe_free(key);
        state.set_alarm_if_pending();
    });
    if done.is_none() {
        state::note(Note::Changed(key.to_owned()));
    }
}

/// A database, or all of them, is about to be emptied.
pub fn flushed(db: Option<u32>) {
    state::with(|state| {
        state.finish_taken();
        state.store.strays.evicted.forget_all(|of| db.is_none_or(|db| db == of));
        state.store.index.drain(|of| db.is_none_or(|db| db == of), |_, _| {});
        state.node.flushed(&mut state.store.waiters, db);
    });
}

/// Two databases have changed places. The locks in them are over.
pub fn swapped(first: u32, second: u32) {
    // Told as well, and nothing has changed.
    if first == second {
        return;
    }
    state::with(|state| {
        state.finish_taken();
        let Store { strays, index, .. } = &mut state.store;
        strays.swap(first, second, index);
        for db in [first, second] {
            state.node.flushed(&mut state.store.waiters, Some(db));
        }
        state.set_alarm_if_pending();
    });
}

/// This server is a replica from now on, or none any more.
pub fn role_changed(replica: bool) {
    state::with(|state| {
        let now = now();
        state.store.audience.may_have_come();
        if replica {
            state.step_down();
            // What it knows is from its primary from now on, and may lack what is on its way.
            state.note_incomplete_log();
        } else if state.store.promises.have_begun() {
            let time = state.time();
            state.node.promoted(time);
            state.promise_now();
            state.log_quarantine();
        }
        state.set_alarm(now);
    });
}

/// A connection has closed.
pub fn disconnected(client: ClientId) {
    state::with(|state| {
        state.node.closed(client);
        state.set_alarm_if_pending();
    });
}

/// A blocked client is gone, whatever the reason.
pub fn waiter_gone(handle: Handle) {
    state::with(|state| {
        if let Some(waiter) = state.store.waiters.gone(handle) {
            state.node.gone(waiter, now());
        }
        state.set_alarm_if_pending();
    });
}

/// An operator ends the wait of a blocked client, as if the time were over.
pub fn wait_ended(handle: Handle) {
    state::with(|state| state.store.stats.denials += 1);
    waiter_gone(handle);
}

/// A blocked client gets its answer.
pub fn answered(waiter: WaiterId, handle: Handle, answer: WaitOutcome) {
    state::with(|state| {
        state.store.stats.denials += u64::from(answer == WaitOutcome::Denied);
        state.store.waiters.answered(handle);
        state.node.delivered(waiter);
    });
}

/// The server has a child process, or has none any more: a snapshot may have begun.
pub fn forked() {
    state::with(|state| state.store.migrations.forked());
    audience();
}

/// A replica may have connected, or a log may have begun.
pub fn audience() {
    state::with(|state| {
        state.store.audience.may_have_come();
        state.store.promises.tell();
        state.set_alarm_if_pending();
    });
}

/// Ten times a second or so. The alarm follows the wall clock, which may have been set back.
pub fn cron(ctx: Ctx<'_>) {
    state::with(|state| {
        let now = now();
        state.node.clock.look(now, unix_micros());
        state.store.audience.look(ctx);
        state.node.look_at_places(now, ctx.avoids_traffic());
        state.node.look_at_queues(now);
        state.begin_if_loaded(ctx);
        state.keep_books(now);
        state.store.alarm.trust();
        state.set_alarm(now);
        if state.next(now).is_some_and(|at| at <= now) {
            state.store.alarm.reset(now, now);
        }
    });
}
