//! The index of leases in the whole keyspace, by their ends.

use dlock_core::stored::deadlines::Deadlines;
use dlock_core::{Deadline, Grant, Instant, Key, KeyBuf, Mode};

use super::block::{Block, Gathering, Inside, Noted};

/// The index. It has a share of every block in it.
#[derive(Default)]
pub struct Index {
    deadlines: Deadlines,
    /// The end of the last lease of each crowd.
    crowds: Deadlines,
    leases: usize,
    bytes: usize,
}

impl Index {
    /// An estimate of the bytes of its locks, with their keys.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The number of leases: the holders of all locks in it.
    pub fn leases(&self) -> usize {
        self.leases
    }

    /// The end of the first lease.
    pub fn first(&self) -> Option<Deadline> {
        self.deadlines.first().map(|(end, _)| end)
    }

    /// The end of the last lease.
    pub fn last_end(&self) -> Option<Deadline> {
        let last = [self.deadlines.backwards().next(), self.crowds.backwards().next()];
        last.into_iter().flatten().map(|(end, _)| end).max()
    }

    /// Calls `each` with every lease.
    pub fn each(&self, mut each: impl FnMut(Key<'_>, Mode, &Grant<'_>)) {
        for (_, entry) in self.deadlines.iter() {
            // SAFETY: entries are removed before their blocks are released, and nothing changes while this
            // runs.
            let inside = unsafe {
                let Some(block) = Block::from_entry(entry) else { continue };
                if !block.is_in_keyspace() {
                    continue;
                }
                block.inside()
            };
            match inside {
                Inside::One(key, grant) => each(key, Mode::Exclusive, &grant),
                Inside::Many(many) => {
                    let (key, mode) = (many.key.as_key(), many.crowd.mode());
                    many.crowd.grants().for_each(|grant| each(key, mode, &grant));
                }
                Inside::Dead => {}
            }
        }
    }

    /// Adds a block, or updates it after its crowd changed.
    pub fn refresh(&mut self, block: Block) {
        // SAFETY: the caller has it from the keyspace; no reference outlives this function.
        let (end, gathering) = unsafe { (block.first_end(), block.gathering()) };
        match (end, gathering) {
            (Some(end), None) => {
                if !block.is_in_index() {
                    block.enter_index();
                    self.leases += 1;
                    self.bytes += block.weight();
                    self.deadlines.insert(end, block.entry());
                }
            }
            (_, Some(gathering)) => {
                self.note_last(block, gathering, gathering.crowd.last_end());
                let first = gathering.crowd.first_end();
                self.leases += gathering.crowd.len();
                self.leases -= std::mem::replace(&mut gathering.counted, gathering.crowd.len());
                let weight = if first.is_none() { 0 } else { gathering.weight() };
                self.bytes += weight;
                self.bytes -= std::mem::replace(&mut gathering.weighed, weight);
                let old = std::mem::replace(&mut gathering.indexed, first);
                if old == first {
                    return;
                }
                if let Some(old) = old {
                    self.deadlines.remove(old, block.entry());
                }
                match first {
                    Some(first) => {
                        block.enter_index();
                        self.deadlines.insert(first, block.entry());
                    }
                    None => block.leave_index(),
                }
            }
            (None, None) => {}
        }
    }

    /// Removes a block.
    pub fn remove(&mut self, block: Block) {
        if !block.is_in_index() {
            return;
        }
        // SAFETY: the index itself holds it, until the last line.
        let (end, gathering) = unsafe { (block.first_end(), block.gathering()) };
        match (end, gathering) {
            (Some(end), None) => {
                self.leases -= 1;
                self.bytes -= block.weight();
                self.deadlines.remove(end, block.entry());
            }
            (_, Some(gathering)) => {
                self.leases -= std::mem::take(&mut gathering.counted);
                self.bytes -= std::mem::take(&mut gathering.weighed);
                self.note_last(block, gathering, None);
                if let Some(end) = gathering.indexed.take() {
                    self.deadlines.remove(end, block.entry());
                }
            }
            // Blocks leave the index before they are killed.
            (None, None) => return,
        }
        block.leave_index();
    }

    /// Removes a block with an ended lock, after the server has taken it from its key, wherever the server may
    /// put the value. Returns the noted grants in it. The caller makes sure that the keyspace or a note still
    /// holds it.
    pub fn remove_dead(&mut self, block: Block) -> Vec<Noted> {
        // SAFETY: the keyspace or a note holds it.
        let noted = unsafe { block.noted() };
        self.remove(block);
        block.kill();
        noted
    }

    /// The key of the first lease that is over, and its block.
    pub fn due(&mut self, now: Instant) -> Option<(KeyBuf, Block)> {
        while let Some((end, entry)) = self.deadlines.first() {
            if !end.is_over(now) {
                return None;
            }
            // SAFETY: entries are removed before their blocks are released.
            let block = unsafe { Block::from_entry(entry) }?;
            if block.is_in_keyspace()
                && let Some(key) = key_of(block)
            {
                return Some((key, block));
            }
            // The server freed the value without an event.
            self.remove(block);
        }
        None
    }

    /// Removes the blocks at these keys, and calls `each` with each of them.
    pub fn drain(&mut self, goes: impl Fn(Key<'_>) -> bool, mut each: impl FnMut(Block, Key<'_>)) {
        let (mut leases, mut bytes) = (self.leases, self.bytes);
        let crowds = &mut self.crowds;
        self.deadlines.drain(|entry| {
            // SAFETY: entries are removed before their blocks are released.
            let Some(block) = (unsafe { Block::from_entry(entry) }) else { return true };
            // SAFETY: the index holds the block until `leave_index` below.
            match unsafe { block.inside() } {
                Inside::One(key, _) if goes(key) => {
                    leases -= 1;
                    bytes -= block.weight();
                    each(block, key);
                }
                Inside::Many(gathering) if goes(gathering.key.as_key()) => {
                    leases -= std::mem::take(&mut gathering.counted);
                    bytes -= std::mem::take(&mut gathering.weighed);
                    gathering.indexed = None;
                    if let Some(last) = gathering.indexed_last.take() {
                        crowds.remove(last, entry);
                    }
                    each(block, gathering.key.as_key());
                }
                _ => return false,
            }
            block.leave_index();
            true
        });
        (self.leases, self.bytes) = (leases, bytes);
    }

    /// Moves the blocks at these keys to another index, without those that the keyspace no longer has.
    pub fn hand_over(&mut self, goes: impl Fn(Key<'_>) -> bool, to: &mut Index) {
        let mut moved = Vec::new();
        self.drain(goes, |block, _| {
            block.keep();
            moved.push(block);
        });
        for block in moved {
            if block.is_in_keyspace() {
                to.refresh(block);
            }
            block.release();
        }
    }

    /// Removes all blocks.
    pub fn clear(&mut self) {
        self.drain(|_| true, |_, _| {});
    }

    fn note_last(&mut self, block: Block, gathering: &mut Gathering, last: Option<Deadline>) {
        let old = std::mem::replace(&mut gathering.indexed_last, last);
        if old == last {
            return;
        }
        if let Some(old) = old {
            self.crowds.remove(old, block.entry());
        }
        if let Some(last) = last {
            self.crowds.insert(last, block.entry());
        }
    }
}

fn key_of(block: Block) -> Option<KeyBuf> {
    // SAFETY: the caller holds a share; the key is copied before anything else can happen.
    match unsafe { block.inside() } {
        Inside::One(key, _) => Some(key.to_owned()),
        Inside::Many(gathering) => Some(gathering.key.clone()),
        Inside::Dead => None,
    }
}
