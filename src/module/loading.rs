//! A data set is loaded: at the start, from a primary, or over the one that is there.

use dlock_core::{Fence, Key, KeyBuf, Millis};

use crate::ffi::block::Block;
use crate::ffi::context::{Ctx, now};
use crate::ffi::scan::Scan;
use crate::keyspace::Keyspace;
use crate::state::{self, Store};

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
        state.store.audience.may_have_come();
        state.store.incoming.note(begins);
        state.store.promises.loads_log |= step == Loading::Log;
        if begins {
            if !state.store.incoming.keeps_old() {
                state.step_down();
            }
        } else if state.store.incoming.end() {
            // What there was is still there, and all that is known of it.
        } else if !state.store.promises.have_begun() {
            state.begin(ctx);
        } else if replica {
            state.node.synced();
        } else {
            let time = state.time();
            state.node.replaced(time);
            state.store.promises.log_is_kept = false;
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
        let Store { incoming, index, .. } = &mut state.store;
        match step {
            Step::Begins => incoming.begin_beside(),
            Step::Swapped => {
                incoming.swap(index);
                correct_databases(ctx, &mut state.store);
            }
            Step::GivenUp => incoming.abort(),
        }
        state.settle(now());
    });
}

/// Redis 7 and Valkey 7 say of all that they load so that it is of database 0. What is elsewhere is
/// looked for, before anything else can happen.
fn correct_databases(ctx: Ctx<'_>, store: &mut Store) {
    if ctx.is_at_least((8, 0), (8, 0)) {
        return;
    }
    let mut keys: Vec<KeyBuf> = Vec::new();
    let mut scan = Scan::of_all_from(1);
    while scan.step(ctx, &mut keys) {}
    let mut keyspace = Keyspace::turn(ctx, store, true);
    keys.iter().for_each(|key| keyspace.correct(key.as_key()));
}

/// A lock has been read, from a file or from a payload. A payload can be refused after all, so
/// the next turn looks whether the lock is anywhere. An error says why nobody wants it.
pub fn loaded(
    key: Key<'_>,
    block: Block,
    fence: Option<Fence>,
    ttl: Millis,
) -> Result<(), &'static str> {
    let wanted = state::with(|state| {
        let unix = state.time().unix;
        let fence = fence.unwrap_or(Fence(0));
        if !state.node.is_following() {
            if state.node.is_too_far(fence, unix) {
                return Err("a stored fence is more than ten minutes ahead of this server");
            }
            if !state.cover(key, fence, ttl) {
                return Err("the state file cannot be written, and does not cover a stored lease");
            }
            state.store.strays.depart();
            state.keep(block);
        }
        state.node.heard_of(key, fence, ttl);
        let Store { incoming, index, strays, migrations, .. } = &mut state.store;
        if !migrations.arrives(key, block) {
            incoming.index().unwrap_or(index).refresh(block);
        }
        if fence == Fence(0) {
            strays.look_at(key);
        }
        Ok(())
    });
    wanted.unwrap_or(Ok(()))
}
