//! Slots that migrate as a whole, on Valkey 9 (`CLUSTER MIGRATESLOTS`), Redis 8.4 (`CLUSTER MIGRATION`), and
//! later ones.
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
//!   which fences it has handed out so far, and those far ahead of the clock key by key, for they are nobody
//!   else's; each later one arrives with its grant. Redis lets it say so ahead of the snapshot.
//! - A server that takes slots over may have had them before, and hold evicted locks of that time: those
//!   are forgotten.
//!
//! - A node in quarantine may have forgotten leases, and the node that takes its slots over would grant
//!   what they hold. So it cancels the migration.
//! - If something that arrives is refused, Valkey ends the migration. Redis goes on without it, as if nothing had
//!   been said; so there it is taken all the same, and this node cancels the migration. That comes
//!   before the slots are this node's, but for what arrives together with the word that they are.
//!
//! At the first server nothing is granted from the moment of the last pause on, as in any pause; then
//! the server removes the keys, and who waits is sent on. Redis removes them without a word about each.

use crate::ffi::context::{Ctx, log, now};
use crate::keyspace::Keyspace;
use crate::server_events::moving_slots::{Job, Stop};
use crate::state::{self, State, Store};

/// What the server tells of a migration.
#[derive(Clone, Copy)]
pub enum Step {
    ImportBegins,
    /// The slots are this server's from now on; on Valkey also: they are not, and their keys are gone.
    ImportEnds,
    /// The slots stay where they were. Their keys are here still, and about to be removed.
    ImportFails,
    ExportBegins,
    /// The slots stay, or their keys have been removed.
    ExportEnds,
    /// The slots are another server's from now on. Their keys are here still.
    Left,
}

/// The server says it, between commands.
pub fn migrates(ctx: Ctx<'_>, step: Step, job: Job) {
    state::with(|state| {
        state.finish_taken();
        match step {
            Step::ImportBegins if !state.node.is_following() => {
                state.forget_evicted(&job);
                state.store.arriving.slots.begin_import(job);
            }
            Step::ImportBegins => {}
            Step::ImportEnds => state.take_over(ctx, &job),
            Step::ImportFails => drop(state.store.arriving.slots.end_import(&job)),
            Step::ExportBegins => {
                let may_have_forgotten = state.node.may_have_forgotten(now());
                state.store.arriving.slots.begin_export(job, may_have_forgotten);
            }
            Step::ExportEnds => state.store.arriving.slots.end_export(&job),
            Step::Left => {
                state.store.arriving.slots.end_export(&job);
                state.empty(|key| job.has(key.name));
            }
        }
        state.settle(now());
    });
}

/// The child process that sends a snapshot is about to. What goes ahead of it: which fences were handed out.
pub fn send_ahead(ctx: Ctx<'_>, job: &Job) {
    state::with(|state| {
        let mut sent = true;
        job.floors(&state.node.durable, |key, floor| sent &= ctx.send_ahead(key, floor));
        if !sent {
            log(
                c"warning",
                "keys that migrate and that nobody holds do not take their fences along",
            );
        }
    });
}

/// Cancels what must not go on. The server may tell at once that it has, so the state must not be in use.
pub fn cancel(ctx: Ctx<'_>, stop: &Stop) {
    let cancelled = ctx.cancel_migrations();
    let why = match stop {
        Stop::Quarantine { again: true } => return,
        Stop::Quarantine { again: false } => "this node is in quarantine, see dlock.quarantine",
        Stop::Refused => "a lock in them is refused here",
    };
    let (level, outcome) = match cancelled {
        true => (c"notice", "slots do not migrate"),
        false => (c"warning", "slots should not migrate, and CLUSTER is renamed or disabled"),
    };
    log(level, &format!("{outcome}: {why}"));
}

impl State {
    /// Whether the command comes from a node whose slots are about to be this one's.
    pub fn is_told(&self, ctx: Ctx<'_>) -> bool {
        self.store.arriving.slots.is_importing()
            && !self.node.is_following()
            && ctx.flags().is_replay()
    }

    /// What arrives at this key cannot be taken. Whether an error is heard.
    pub fn refuses(&mut self, name: &[u8]) -> bool {
        let refused = self.store.arriving.slots.refuses(name);
        self.set_alarm_if_pending();
        refused
    }

    /// The locks that have arrived are this node's from now on, or gone again.
    fn take_over(&mut self, ctx: Ctx<'_>, job: &Job) {
        let keys = self.store.arriving.slots.end_import(job);
        if keys.is_empty() {
            return;
        }
        let mut keyspace = Keyspace::event_loop(ctx, &mut self.store, true);
        keys.keys().for_each(|key| keyspace.look_at(key.as_key()));
        drop(keyspace);
        self.promise_now();
    }

    fn forget_evicted(&mut self, job: &Job) {
        let Store { moved_keys, index, .. } = &mut self.store;
        for block in moved_keys.evicted.take(|key| job.has(&key.name)) {
            index.remove(block);
            block.release();
        }
    }
}
