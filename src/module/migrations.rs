//! The migrations of slots that are under way, and what arrives with them.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use dlock_core::cluster::{SLOTS, name_in, slot_of};
use dlock_core::command::apply::write_floor;
use dlock_core::{Fence, Key, KeyBuf};

use crate::ffi::block::Block;
use crate::ffi::context::{Ctx, Name, log};
use crate::ffi::index::weight;

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
    pub fn has(&self, name: &[u8]) -> bool {
        self.has_slot(slot_of(name))
    }

    fn has_slot(&self, slot: u16) -> bool {
        self.slots.iter().any(|slots| slots.contains(&slot))
    }
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

    /// Slots and what is in them are about to arrive.
    pub fn begin_import(&mut self, job: Job) {
        self.imports.push(job);
    }

    /// What has arrived.
    pub fn end_import(&mut self, job: &Job) -> BTreeMap<KeyBuf, usize> {
        self.imports.retain(|other| other.name != job.name);
        let all = std::mem::take(&mut self.arriving);
        let (here, rest): (BTreeMap<_, _>, _) =
            all.into_iter().partition(|(key, _)| job.has(&key.name));
        self.arriving = rest;
        self.bytes -= here.values().sum::<usize>();
        here
    }

    /// Slots are about to leave. A node that may have forgotten leases gives none away.
    pub fn begin_export(&mut self, job: Job, may_have_forgotten: bool) {
        self.owes_stop = may_have_forgotten;
        self.exports.push(job);
    }

    /// They have left, or stay.
    pub fn end_export(&mut self, job: &Job) {
        self.exports.retain(|other| other.name != job.name);
    }
}
