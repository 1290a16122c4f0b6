//! A data set that a replica loads beside the one that it has (`repl-diskless-load swapdb`).
//!
//! Until the load is complete, the old data set is the one that counts, and is read. The locks of
//! the new one are kept apart, and take the place of the old ones when the server swaps the data
//! sets. If the load is given up, nothing has happened.
//!
//! The server tells that such a load begins, then that a load begins, as it does of any; in the end
//! that the data sets are swapped, or that the load is given up; and that a load has ended. When it
//! is given up, the last two come in either order.

use dlock_core::KeyBuf;

use crate::ffi::context::{Ctx, now};
use crate::ffi::index::Index;
use crate::ffi::scan::Scan;
use crate::host::Here;
use crate::state::{self, Store};

/// What the server says of such a load.
pub enum Step {
    /// It begins.
    Begins,
    /// The new data set has taken the place of the old one.
    Swapped,
    /// The new one has not become whole.
    GivenUp,
}

/// The server says it, in the middle of its load.
pub fn told(ctx: Ctx<'_>, step: Step) {
    state::with(|state| {
        state.finish_taken();
        let Store { incoming, index, .. } = &mut state.store;
        match step {
            Step::Begins => incoming.begin(),
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
    let version = ctx.server_version(c"valkey_version");
    let version = version.or_else(|| ctx.server_version(c"redis_version"));
    if !version.is_some_and(|version| version.starts_with(b"7.")) {
        return;
    }
    let mut keys: Vec<KeyBuf> = Vec::new();
    let mut scan = Scan::of_all_from(1);
    while scan.step(ctx, &mut keys) {}
    let mut here = Here::turn(ctx, store, true);
    keys.iter().for_each(|key| here.correct(key.as_key()));
}

/// A load beside what there is.
#[derive(Default)]
pub struct Incoming {
    /// The deadlines of the new locks, while they are read.
    index: Option<Index>,
    /// Whether the load that is under way has left the old data set alone so far.
    spares: bool,
}

impl Incoming {
    /// It begins.
    fn begin(&mut self) {
        self.abort();
        *self = Incoming { index: Some(Index::default()), spares: true };
    }

    /// Where a lock belongs that is read now, if not to the live ones.
    pub fn index(&mut self) -> Option<&mut Index> {
        self.index.as_mut()
    }

    /// Whether the load that is under way leaves the old data set alone.
    pub fn spares(&self) -> bool {
        self.spares
    }

    /// The new data set has taken the place of the old one.
    fn swap(&mut self, live: &mut Index) {
        self.spares = false;
        if let Some(new) = self.index.take() {
            std::mem::replace(live, new).clear();
        }
    }

    /// It is given up: the server lets go of what it has read.
    fn abort(&mut self) {
        if let Some(mut index) = self.index.take() {
            index.clear();
        }
    }

    /// The load has ended. Whether the old data set is still there.
    pub fn end(&mut self) -> bool {
        std::mem::take(&mut self.spares)
    }
}
