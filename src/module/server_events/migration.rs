//! Slots that migrate as a whole, on Valkey 9 (`CLUSTER MIGRATESLOTS`), Redis 8.4 (`CLUSTER MIGRATION`), and
//! later ones.
//! The server with the slots sends a snapshot, then everything that it replicates about them, and pauses writes
//! for a moment; then the other server takes them over. Until then the first server leads the locks in them,
//! and the second follows:
//!
//! - The second node carries effects out as on a replica ([`dlock_core::Node::obey`]), and refuses those that
//!   no node can have decided. The state file covers an effect before it is confirmed.
//! - No lease in these slots ends here before they are this node's: an EXTEND may be in flight. These locks have
//!   an index of their own, in which no lease falls due. They count as memory of locks all the same.
//! - Keys without holders take no fence along. So the first server sends its largest fence so far when the
//!   snapshot has begun. It sends fences far ahead of the clock key by key, because they belong to their keys
//!   alone. Each later fence arrives with its grant. On Redis it can send fences ahead of the snapshot. On Valkey a
//!   pause of writes may come first, as that of another migration: then the second node assumes the largest
//!   fence that any node can have.
//! - A node in quarantine may have forgotten leases, and a node that has evicted locks keeps their keys shut.
//!   The node that takes its slots over would grant these locks. So it cancels the migration.
//! - If this node refuses an effect, Valkey ends the migration. Redis continues regardless; so there this node
//!   takes the effect all the same, and cancels the migration. That comes before the slots are this node's,
//!   except for effects that arrive together with the message that they are.
//!
//! The first server grants nothing from the last pause on, as in any pause; then it removes the keys, and
//! waiters are redirected. Redis removes the keys without an event for each.

use dlock_core::Millis;

use crate::ffi::context::{Ctx, log, now};
use crate::server_events::moving_slots::{Job, Stop};
use crate::state::{self, State};

/// The server's events about a migration.
#[derive(Clone, Copy)]
pub enum Step {
    ImportBegins,
    /// The slots are this server's from now on.
    ImportEnds,
    /// The slots stay where they were. Their keys have been removed, or are about to be.
    ImportFails,
    ExportBegins,
    /// The slots stay, or their keys have been removed.
    ExportEnds,
    /// The slots are another server's from now on. Their keys are still here.
    Left,
}

/// Handles an event between commands.
pub fn migrates(step: Step, job: Job) {
    state::with(|state| {
        state.finish_taken();
        match step {
            Step::ImportBegins if !state.node.is_following() => {
                state.store.arriving.slots.begin_import(job, &mut state.store.index);
            }
            Step::ImportBegins => {}
            Step::ImportEnds => {
                if !state.store.arriving.slots.end_import(&job, &mut state.store.index) {
                    let time = state.time();
                    state.node.durable.assume_fences(time);
                }
                state.promise_now();
            }
            Step::ImportFails => {
                state.store.arriving.slots.end_import(&job, &mut state.store.index);
                state.store.index.drain(|key| job.has(key.name), |_, _| {});
            }
            Step::ExportBegins => {
                let now = now();
                let evicted = state.node.evicted_left(now) > Millis(0);
                let stays = evicted || state.node.is_in_quarantine(now);
                state.store.arriving.slots.begin_export(job, stays);
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

/// Sends the fences ahead of a snapshot, in the child process that is about to send it.
pub fn send_ahead(ctx: Ctx<'_>, job: &Job) {
    state::with(|state| {
        let mut sent = true;
        job.floors(&state.node.durable, |key, floor| sent &= ctx.send_ahead(key, floor));
        if !sent {
            log(c"warning", "keys without a holder migrate without their fences");
        }
    });
}

/// Cancels a migration that must not go on. The server may report the cancellation at once, so the state
/// must not be in use.
pub fn cancel(ctx: Ctx<'_>, stop: &Stop) {
    let cancelled = ctx.cancel_migrations();
    let why = match stop {
        Stop::HeldBack { again: true } => return,
        Stop::HeldBack { again: false } => {
            "this node is in quarantine, see dlock.quarantine, or has evicted locks whose leases have not ended"
        }
        Stop::Refused => "this node refuses a lock in them",
    };
    let (level, outcome) = match cancelled {
        true => (c"notice", "slots do not migrate"),
        false => {
            (c"warning", "cannot stop slots from migrating, because CLUSTER is renamed or disabled")
        }
    };
    log(level, &format!("{outcome}: {why}"));
}

impl State {
    /// True if the command comes from a node with slots that are about to be this one's.
    pub fn is_told(&self, ctx: Ctx<'_>) -> bool {
        self.store.arriving.slots.is_importing()
            && !self.node.is_following()
            && ctx.flags().is_replay()
    }

    /// Refuses a value that arrives at this key. False: the other server ignores errors.
    pub fn refuses(&mut self, name: &[u8]) -> bool {
        let refused = self.store.arriving.slots.refuses(name);
        self.set_alarm_if_pending();
        refused
    }
}
