//! Slots that migrate as a whole, on Valkey 9 and later (`CLUSTER MIGRATESLOTS`).
//!
//! The server that has the slots sends a snapshot, then everything that it replicates about them, and
//! stops writing for a moment; then the other server takes them over. So until then the locks in
//! them are led by the first server and followed by the second:
//!
//! - What arrives is carried out as on a replica ([`dlock_core::Node::obey`]), and is refused if no
//!   node can have decided it. The state file covers it before it is confirmed.
//! - No lease in these slots ends here before they are this node's: an EXTEND may be on its way. The
//!   index does not track these locks; their keys are noted, and are looked at when the migration is
//!   over. They count as memory of locks all the same.
//! - Keys that nobody holds take no fence along. So the first server says, when the snapshot has begun,
//!   which fences it has handed out so far; each later one arrives with its grant.
//! - A server that takes slots over may have had them before, and hold evicted locks of that time: those
//!   are forgotten.
//!
//! - A node in quarantine may have forgotten leases, and the node that takes its slots over would grant
//!   what they hold. So it cancels the migration.
//!
//! At the first server nothing is granted from the moment of the last pause on, as in any pause; then
//! the server removes the keys, and who waits is sent on.

use crate::ffi::context::{Ctx, now};
use crate::keyspace::Keyspace;
use crate::migrations::Job;
use crate::state::{self, State, Store};

/// What the server tells of a migration.
#[derive(Clone, Copy)]
pub enum Step {
    ImportBegins,
    ImportEnds,
    ExportBegins,
    ExportEnds,
}

/// The server says it, between commands.
pub fn migrates(ctx: Ctx<'_>, step: Step, job: Job) {
    state::with(|state| {
        state.finish_taken();
        match step {
            Step::ImportBegins if !state.node.is_following() => {
                state.forget_evicted(&job);
                state.store.migrations.begin_import(job);
            }
            Step::ImportBegins => {}
            Step::ImportEnds => state.take_over(ctx, &job),
            Step::ExportBegins => {
                let may_have_forgotten = state.node.may_have_forgotten(now());
                state.store.migrations.begin_export(job, may_have_forgotten);
            }
            Step::ExportEnds => state.store.migrations.end_export(&job),
        }
        state.settle(now());
    });
}

impl State {
    /// Whether the command comes from a node whose slots are about to be this one's.
    pub fn is_told(&self, ctx: Ctx<'_>) -> bool {
        self.store.migrations.is_importing() && !self.node.is_following() && ctx.flags().is_replay()
    }

    /// The locks that have arrived are this node's from now on, or gone again.
    fn take_over(&mut self, ctx: Ctx<'_>, job: &Job) {
        let keys = self.store.migrations.end_import(job);
        if keys.is_empty() {
            return;
        }
        let mut keyspace = Keyspace::turn(ctx, &mut self.store, true);
        keys.keys().for_each(|key| keyspace.look_at(key.as_key()));
        drop(keyspace);
        self.promise_now();
    }

    fn forget_evicted(&mut self, job: &Job) {
        let Store { strays, index, .. } = &mut self.store;
        for block in strays.evicted.take(|key| job.has(&key.name)) {
            index.remove(block);
            block.release();
        }
    }
}
