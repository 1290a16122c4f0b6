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

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use dlock_core::cluster::{SLOTS, name_in, slot_of};
use dlock_core::command::apply::write_floor;
use dlock_core::{Fence, Key, KeyBuf};

use crate::ffi::block::Block;
use crate::ffi::context::{Ctx, Name, log, now};
use crate::ffi::index::weight;
use crate::keyspace::Keyspace;
use crate::state::{self, State, Store};

/// The migrations that are under way.
#[derive(Default)]
pub struct Migrations {
    imports: Vec<Job>,
    /// The keys of locks that arrive with them, and about how many bytes each takes.
    arriving: BTreeMap<KeyBuf, usize>,
    /// All of them together.
    bytes: usize,
    exports: Vec<Job>,
    /// Those who take slots over are still to learn which fences were handed out.
    owes_floor: bool,
    /// Slots are about to leave that nobody may grant in yet.
    owes_stop: bool,
}

/// A migration.
pub struct Job {
    pub name: [u8; 40],
    pub slots: Vec<RangeInclusive<u16>>,
}

impl Job {
    fn has(&self, name: &[u8]) -> bool {
        self.has_slot(slot_of(name))
    }

    fn has_slot(&self, slot: u16) -> bool {
        self.slots.iter().any(|slots| slots.contains(&slot))
    }
}

/// What the server tells of a migration.
#[derive(Clone, Copy)]
pub enum Step {
    ImportBegins,
    ImportEnds,
    ExportBegins,
    ExportEnds,
}

impl Migrations {
    /// Whether this node is about to take slots over.
    pub fn is_importing(&self) -> bool {
        !self.imports.is_empty()
    }

    /// Whether the lock at this key is still led by another node. If so, its key is noted.
    pub fn arrives(&mut self, key: Key<'_>, block: Block) -> bool {
        if !self.imports.iter().any(|job| job.has(key.name)) {
            return false;
        }
        let weight = weight(block) + key.name.len();
        self.bytes += weight;
        self.bytes -= self.arriving.insert(key.to_owned(), weight).unwrap_or(0);
        true
    }

    /// Nothing is at the key any more.
    pub fn gone(&mut self, key: Key<'_>) {
        if !self.arriving.is_empty() {
            self.bytes -= self.arriving.remove(&key.to_owned()).unwrap_or(0);
        }
    }

    /// About how much memory the locks take that arrive.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// A snapshot may have begun.
    pub fn forked(&mut self) {
        self.owes_floor = !self.exports.is_empty();
    }

    /// Whether the next turn has something to do.
    pub fn any_pending(&self) -> bool {
        self.owes_floor || self.owes_stop
    }

    /// Cancels what must not go on.
    pub fn stop(&mut self, ctx: Ctx<'_>) {
        if std::mem::take(&mut self.owes_stop) && !self.exports.is_empty() {
            let (level, outcome) = match ctx.cancel_migrations() {
                true => (c"notice", "slots do not migrate"),
                false => {
                    (c"warning", "slots should not migrate, and CLUSTER is renamed or disabled")
                }
            };
            log(level, &format!("{outcome}: this node is in quarantine, see dlock.quarantine"));
        }
    }

    /// Tells those who take slots over, which fences were handed out.
    pub fn tell_floor(&mut self, ctx: Ctx<'_>, fence: Fence) {
        if !std::mem::take(&mut self.owes_floor) {
            return;
        }
        let mut floor = Vec::new();
        write_floor(fence, &mut floor);
        for job in &self.exports {
            if let Some(slots) = job.slots.first() {
                ctx.replicate_apply(&Name::new(&name_in(*slots.start())), &floor, b"");
            }
        }
    }

    /// While slots leave, one that does not: what is replicated needs a key then.
    pub fn aside(&self) -> Option<u16> {
        if self.exports.is_empty() {
            return None;
        }
        let leaves = |slot: &u16| self.exports.iter().any(|job| job.has_slot(*slot));
        (0..SLOTS as u16).find(|slot| !leaves(slot)).or(Some(0))
    }

    fn end_import(&mut self, job: &Job) -> BTreeMap<KeyBuf, usize> {
        self.imports.retain(|other| other.name != job.name);
        let all = std::mem::take(&mut self.arriving);
        let (here, rest): (BTreeMap<_, _>, _) =
            all.into_iter().partition(|(key, _)| job.has(&key.name));
        self.arriving = rest;
        self.bytes -= here.values().sum::<usize>();
        here
    }
}

/// The server says it, between commands.
pub fn migrates(ctx: Ctx<'_>, step: Step, job: Job) {
    state::with(|state| {
        state.finish_taken();
        match step {
            Step::ImportBegins if !state.node.is_following() => {
                state.forget_evicted(&job);
                state.store.migrations.imports.push(job);
            }
            Step::ImportBegins => {}
            Step::ImportEnds => state.take_over(ctx, &job),
            Step::ExportBegins => {
                state.store.migrations.owes_stop = state.node.may_have_forgotten(now());
                state.store.migrations.exports.push(job);
            }
            Step::ExportEnds => {
                state.store.migrations.exports.retain(|other| other.name != job.name);
            }
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
        if !self.node.is_following() {
            self.promise_now();
        }
    }

    fn forget_evicted(&mut self, job: &Job) {
        let Store { strays, index, .. } = &mut self.store;
        for block in strays.evicted.take(|key| job.has(&key.name)) {
            index.remove(block);
            block.release();
        }
    }
}
