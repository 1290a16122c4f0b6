//! A data set is loaded: at the start, from a primary, or over the one that is there.

use dlock_core::{Fence, Key, KeyBuf, Millis};

use crate::ffi::block::Block;
use crate::ffi::context::{Ctx, log, now};
use crate::ffi::scan::Scan;
use crate::keyspace::Keyspace;
use crate::state::{self, Arriving, Store};

/// What the server says of loading.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Loading {
    /// A log is being loaded.
    Log,
    /// Another kind of data set is.
    Other,
    /// It has been, or could not be.
    Ended,
}

/// The data set is being loaded, or has been.
pub fn loading(ctx: Ctx<'_>, step: Loading) {
    let begins = step != Loading::Ended;
    let replica = ctx.flags().is_replica();
    state::with(|state| {
        let now = now();
        state.store.replication.may_have_come();
        state.store.arriving.load.note(begins);
        state.store.durability.loads_log |= step == Loading::Log;
        if begins {
            if !state.store.arriving.load.keeps_old() {
                state.step_down();
            }
        } else if state.store.arriving.load.end() {
            // What there was is still there, and all that is known of it.
        } else if !state.store.durability.have_begun() {
            state.begin(ctx);
        } else if replica {
            state.node.durable.synced();
            state.store.durability.owes_ack = true;
        } else {
            let time = state.time();
            state.node.replaced(time);
            state.store.durability.log_is_kept = false;
            state.promise_now();
            state.log_quarantine();
        }
        state.set_alarm(now);
    });
}

/// What the server says of a load beside the data set that counts.
pub enum Step {
    /// It begins.
    Begins,
    /// The new data set has taken the place of the old one.
    Swapped,
    /// The new one has not become whole.
    GivenUp,
}

/// The server says it, in the middle of its load.
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

/// Where the server says of all that it loads so that it is of database 0, what is elsewhere is looked for,
/// before anything else can happen.
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

/// A lock has been read, from a file or from a payload. A payload can be refused after all, so
/// the next iteration of the event loop looks whether the lock is anywhere. An error says why nobody wants it.
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
            let why = if state.node.durable.is_too_far(fence) {
                Some("a stored fence is more than ten minutes ahead of this server")
            } else if !state.node.durable.has_room_for(key, fence) {
                Some("a stored fence is ahead of this server, as those of too many keys are")
            } else if !state.cover(key, fence, ttl) {
                Some("the state file cannot be written, and does not cover a stored lease")
            } else {
                None
            };
            if let Some(why) = why {
                if state.store.arriving.slots.refuses(key.name) {
                    return Err(why);
                }
                log(c"warning", &format!("a lock arrives with its slot, and {why}"));
                state.node.durable.led_elsewhere(key, fence);
            }
            state.store.moved_keys.depart();
            state.keep(block);
        }
        state.node.heard_of(key, fence, ttl);
        let Store { arriving: Arriving { load, slots }, index, moved_keys, .. } = &mut state.store;
        if !slots.arrives(key, block) {
            load.index().unwrap_or(index).refresh(block);
        }
        if fence == Fence(0) {
            moved_keys.look_at(key);
        }
        Ok(())
    });
    wanted.unwrap_or(Ok(()))
}
