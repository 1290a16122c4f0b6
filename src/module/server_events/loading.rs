//! The load of a data set: at the start, from a primary, or over the present one.

use dlock_core::lock::done::NO_MAKER;
use dlock_core::{Done, Fence, Key, KeyBuf, Millis};

use crate::ffi::block::Block;
use crate::ffi::context::{Ctx, log, now};
use crate::ffi::scan::Scan;
use crate::keyspace::Keyspace;
use crate::state::{self, Arriving, State, Store};

/// Handles a load that begins, or has ended or failed.
pub fn loading(ctx: Ctx<'_>, begins: bool) {
    let replica = ctx.flags().is_replica();
    state::with(|state| {
        let now = now();
        state.store.replication.may_have_come();
        state.store.arriving.load.note(begins);
        if begins {
            if !state.store.arriving.load.keeps_old() {
                state.step_down();
            }
        } else if state.store.arriving.load.end() {
            // The old data set is still there, and so is its state.
        } else if !state.store.durability.have_begun() {
            state.begin(ctx);
        } else if replica {
            state.node.durable.untold();
        } else {
            let time = state.time();
            state.node.replaced(time);
            state.promise_now();
            state.log_quarantine();
        }
        state.set_alarm(now);
    });
}

/// The server's events about a load beside the present data set.
pub enum Step {
    /// The load begins.
    Begins,
    /// The new data set has replaced the old one.
    Swapped,
    /// The load is aborted: the new data set is incomplete.
    GivenUp,
}

/// Handles such an event, during the load.
pub fn beside(ctx: Ctx<'_>, step: Step) {
    state::with(|state| {
        state.finish_taken();
        let Store { arriving: Arriving { load, .. }, index, .. } = &mut state.store;
        match step {
            Step::Begins => load.begin_beside(),
            Step::Swapped => {
                load.swap(index);
                correct_databases(ctx, &mut state.store);
            }
            Step::GivenUp => load.abort(),
        }
        state.settle(now());
    });
}

/// Corrects the databases of loaded locks before anything else can happen, if the server gives database 0
/// for every key that it loads.
fn correct_databases(ctx: Ctx<'_>, store: &mut Store) {
    if !ctx.version().loads_all_into_database_0() {
        return;
    }
    let mut keys: Vec<KeyBuf> = Vec::new();
    let mut scan = Scan::of_all_from(1);
    while scan.step(ctx, &mut keys) {}
    let mut keyspace = Keyspace::event_loop(ctx, store, true);
    keys.iter().for_each(|key| keyspace.correct(key.as_key()));
}

/// Takes over a lock that was read from a file or a payload. The server may still refuse the payload, so the
/// next iteration of the event loop checks if the lock has a key. An error gives the reason for a refusal.
pub fn loaded(
    key: Key<'_>,
    block: Block,
    fence: Option<Fence>,
    ttl: Millis,
) -> Result<(), &'static str> {
    let wanted = state::with(|state| {
        state.time();
        let fence = fence.unwrap_or(Fence(0));
        if !state.node.is_following() {
            accept(state, key, fence, ttl)?;
            state.keep(block);
        }
        state.node.heard_of(key, fence, ttl);
        match state.store.arriving.load.index() {
            Some(index) => index.refresh(block),
            None => state.store.index_at(key).refresh(block),
        }
        if fence == Fence(0) {
            state.store.moved_keys.owe_search();
        }
        Ok(())
    });
    wanted.unwrap_or(Err(IN_USE))
}

/// Takes note of a done lock that was read from a file or a payload: the next holder gets a larger fence. An
/// error gives the reason for a refusal.
pub fn loaded_done(key: Key<'_>, done: &mut Done<'_>) -> Result<(), &'static str> {
    let fence = done.top;
    let wanted = state::with(|state| {
        state.time();
        if !state.node.is_following() {
            done.maker = NO_MAKER;
            accept(state, key, fence, Millis(1))?;
        }
        state.node.pass_on(key, fence);
        Ok(())
    });
    wanted.unwrap_or(Err(IN_USE))
}

/// The reason for refusing a payload during a dlock command: another module has restored it in its handler of
/// an event.
const IN_USE: &str = "dlock carries out a command";

/// Accepts a stored value: the state file covers it from now on. An error gives the reason for a refusal, unless the
/// lock arrives with its slot from a server that ignores errors.
fn accept(state: &mut State, key: Key<'_>, fence: Fence, ttl: Millis) -> Result<(), &'static str> {
    let covered = if state.node.durable.is_too_far(fence) {
        Err("a stored fence is more than ten minutes ahead of this server")
    } else if !state.node.durable.has_room_for(key, fence) {
        Err("a stored fence is ahead of this server, as those of too many keys are")
    } else {
        state.cover(key, fence, ttl)
    };
    let Err(why) = covered else { return Ok(()) };
    if state.refuses(key.name) {
        return Err(why);
    }
    log(c"warning", &format!("a lock arrives with its slot, and {why}"));
    state.node.durable.led_elsewhere(key, fence);
    Ok(())
}
