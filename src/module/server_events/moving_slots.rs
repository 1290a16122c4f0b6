//! The migrations of slots under way, and the locks that arrive with them.

use std::ops::RangeInclusive;

use dlock_core::command::apply::{write_ahead, write_floor};
use dlock_core::durability::durable::Durable;
use dlock_core::servers::slots::{SLOTS, name_in, slot_of};

use crate::ffi::context::{Ctx, Name};
use crate::ffi::index::Index;

/// The migrations of slots under way.
#[derive(Default)]
pub struct MovingSlots {
    imports: Vec<Job>,
    /// The leases that arrive with them. None of them ends here before the slots are this node's.
    pub index: Index,
    exports: Vec<Job>,
    /// True if the servers that take slots over have not yet received the largest fences.
    owes_floor: bool,
    /// Set if the migrations under way must not go on.
    stop: Option<Stop>,
    /// The last migration that was stopped at its beginning.
    stopped: Option<[u8; 40]>,
}

/// The reason why migrations must not go on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// This node may not grant in the leaving slots yet, nor may another node. Redis retries each second.
    HeldBack { again: bool },
    /// This node refuses an effect, and the server does not end the migration because of that.
    Refused,
}

/// The server's reaction to an error when an effect arrives with its slot.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Refusals {
    /// The server ends the migration.
    EndIt,
    /// The server continues.
    Unheard,
}

/// A migration.
pub struct Job {
    pub name: [u8; 40],
    pub slots: Vec<RangeInclusive<u16>>,
    pub refusals: Refusals,
    /// True if the other server's largest fence has arrived.
    pub has_floor: bool,
}

impl Job {
    pub fn has(&self, name: &[u8]) -> bool {
        self.has_slot(slot_of(name))
    }

    /// The largest fences in its slots: at any key, and at the keys that are far ahead. Each with a
    /// key of these slots.
    pub fn floors(&self, durable: &Durable, mut tell: impl FnMut(&Name, &[u8])) {
        let Some(slots) = self.slots.first() else { return };
        let mut floor = Vec::new();
        write_floor(durable.counter.last_of_all(), &mut floor);
        tell(&Name::new(&name_in(*slots.start())), &floor);
        for (key, fence) in durable.counter.ahead().filter(|(key, _)| self.has_slot(key.in_cluster))
        {
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
    /// True if this node is about to take slots over.
    pub fn is_importing(&self) -> bool {
        !self.imports.is_empty()
    }

    /// True if this node is about to take the key's slot over.
    pub fn imports(&self, name: &[u8]) -> bool {
        self.imports.iter().any(|job| job.has(name))
    }

    /// Refuses a value that arrives at this key. False: the other server ignores errors, so this node takes it
    /// all the same, and cancels the migration.
    pub fn refuses(&mut self, name: &[u8]) -> bool {
        let unheard = |job: &Job| job.refusals == Refusals::Unheard && job.has(name);
        if !self.imports.iter().any(unheard) {
            return true;
        }
        self.stop = Some(Stop::Refused);
        false
    }

    /// Notes that a snapshot may have begun.
    pub fn forked(&mut self) {
        // If the server ignores refusals, the fences go ahead of the snapshot.
        self.owes_floor = self.exports.iter().any(|job| job.refusals == Refusals::EndIt);
    }

    /// True if there is work for the event loop.
    pub fn any_pending(&self) -> bool {
        self.owes_floor || self.stop.is_some()
    }

    /// Takes the reason to cancel the migrations, if there is one.
    pub fn take_stop(&mut self) -> Option<Stop> {
        self.stop.take().filter(|stop| match stop {
            Stop::HeldBack { .. } => !self.exports.is_empty(),
            Stop::Refused => !self.imports.is_empty(),
        })
    }

    /// Sends the largest fences to the servers that take slots over.
    pub fn tell_floors(&mut self, ctx: Ctx<'_>, durable: &Durable) {
        if std::mem::take(&mut self.owes_floor) {
            let tell = |key: &Name, floor: &[u8]| ctx.replicate_apply(key, floor, b"");
            self.exports.iter().for_each(|job| job.floors(durable, tell));
        }
    }

    /// A slot that stays while other slots leave: then a replicated command needs a key of one slot.
    pub fn aside(&self) -> Option<u16> {
        if self.exports.is_empty() {
            return None;
        }
        let leaves = |slot: &u16| self.exports.iter().any(|job| job.has_slot(*slot));
        (0..SLOTS as u16).find(|slot| !leaves(slot)).or(Some(0))
    }

    /// Begins a migration of slots to this node.
    pub fn begin_import(&mut self, job: Job, live: &mut Index) {
        live.hand_over(|key| job.has(key.name), &mut self.index);
        self.imports.push(job);
    }

    /// Notes that the largest fence of the other server has arrived, at this key.
    pub fn hear_floor(&mut self, name: &[u8]) {
        let jobs = self.imports.iter_mut().filter(|job| job.has(name));
        jobs.for_each(|job| job.has_floor = true);
    }

    /// Ends the migration: the locks that have arrived are this node's, or about to be removed. False if the largest
    /// fence of the other server has not arrived.
    pub fn end_import(&mut self, job: &Job, live: &mut Index) -> bool {
        self.index.hand_over(|key| job.has(key.name), live);
        let is_it = |other: &mut Job| other.name == job.name;
        self.imports.extract_if(.., is_it).all(|job| job.has_floor)
    }

    /// Begins a migration of slots to another node. With `stays` this node stops it.
    pub fn begin_export(&mut self, job: Job, stays: bool) {
        if stays {
            let again = self.stopped.replace(job.name) == Some(job.name);
            self.stop = Some(Stop::HeldBack { again });
        }
        self.exports.push(job);
    }

    /// Stops the migration of this key's slot, if there is one.
    pub fn hold_back(&mut self, name: &[u8]) {
        if self.exports.iter().any(|job| job.has(name)) {
            self.stop = Some(Stop::HeldBack { again: false });
        }
    }

    /// Ends the migration, whether the slots have left or stay.
    pub fn end_export(&mut self, job: &Job) {
        self.exports.retain(|other| other.name != job.name);
    }
}
