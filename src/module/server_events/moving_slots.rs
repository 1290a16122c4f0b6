//! The moving_slots of slots that are under way, and what arrives with them.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use dlock_core::cluster::{SLOTS, name_in, slot_of};
use dlock_core::command::apply::{write_ahead, write_floor};
use dlock_core::durability::durable::Durable;
use dlock_core::{Key, KeyBuf};

use crate::ffi::block::Block;
use crate::ffi::context::{Ctx, Name};
use crate::ffi::index::weight;

/// The moving_slots that are under way.
#[derive(Default)]
pub struct MovingSlots {
    imports: Vec<Job>,
    /// The keys of locks that arrive with them, and about how many bytes each takes.
    arriving: BTreeMap<KeyBuf, usize>,
    /// All of them together.
    bytes: usize,
    exports: Vec<Job>,
    /// Those who take slots over are still to learn which fences were handed out.
    owes_floor: bool,
    /// What is under way must not go on.
    stop: Option<Stop>,
    /// The migration that a quarantine has stopped last.
    stopped: Option<[u8; 40]>,
}

/// Why moving_slots must not go on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// Slots are about to leave that nobody may grant in yet. Redis tries that again each second.
    Quarantine { again: bool },
    /// Something that arrives is refused, and the server does not end the migration for that.
    Refused,
}

/// What a server makes of an error when something arrives with its slot.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Refusals {
    /// It ends the migration.
    EndIt,
    /// It goes on.
    Unheard,
}

/// A migration.
pub struct Job {
    pub name: [u8; 40],
    pub slots: Vec<RangeInclusive<u16>>,
    pub refusals: Refusals,
}

impl Job {
    pub fn has(&self, name: &[u8]) -> bool {
        self.has_slot(slot_of(name))
    }

    /// The fences that were handed out in its slots: at any key, and at those that are far ahead. Each with a
    /// key of these slots.
    pub fn floors(&self, durable: &Durable, mut tell: impl FnMut(&Name, &[u8])) {
        let Some(slots) = self.slots.first() else { return };
        let mut floor = Vec::new();
        write_floor(durable.fence_of_all(), &mut floor);
        tell(&Name::new(&name_in(*slots.start())), &floor);
        for (key, fence) in durable.ahead().filter(|(key, _)| self.has_slot(key.in_cluster)) {
            floor.clear();
            write_ahead(&key, fence, &mut floor);
            tell(&Name::new(&name_in(key.in_cluster)), &floor);
        }
    }

    fn has_slot(&self, slot: u16) -> bool {
        self.slots.iter().any(|slots| slots.contains(&slot))
    }
}

impl MovingSlots {
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

    /// What arrives at this key cannot be taken. Whether an error is heard; if not, it has to be taken all the
    /// same, and the migration is cancelled.
    pub fn refuses(&mut self, name: &[u8]) -> bool {
        let unheard = |job: &Job| job.refusals == Refusals::Unheard && job.has(name);
        if !self.imports.iter().any(unheard) {
            return true;
        }
        self.stop = Some(Stop::Refused);
        false
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
        // Where refusals are unheard, the snapshot itself says it.
        self.owes_floor = self.exports.iter().any(|job| job.refusals == Refusals::EndIt);
    }

    /// Whether the event loop has something to do.
    pub fn any_pending(&self) -> bool {
        self.owes_floor || self.stop.is_some()
    }

    /// Why what is under way is to be cancelled now.
    pub fn take_stop(&mut self) -> Option<Stop> {
        self.stop.take().filter(|stop| match stop {
            Stop::Quarantine { .. } => !self.exports.is_empty(),
            Stop::Refused => !self.imports.is_empty(),
        })
    }

    /// Tells those who take slots over, which fences were handed out.
    pub fn tell_floors(&mut self, ctx: Ctx<'_>, durable: &Durable) {
        if std::mem::take(&mut self.owes_floor) {
            let tell = |key: &Name, floor: &[u8]| ctx.replicate_apply(key, floor, b"");
            self.exports.iter().for_each(|job| job.floors(durable, tell));
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
        if may_have_forgotten {
            let again = self.stopped.replace(job.name) == Some(job.name);
            self.stop = Some(Stop::Quarantine { again });
        }
        self.exports.push(job);
    }

    /// They have left, or stay.
    pub fn end_export(&mut self, job: &Job) {
        self.exports.retain(|other| other.name != job.name);
    }
}
