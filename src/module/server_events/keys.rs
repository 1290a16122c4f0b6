//! Keys changed by other commands, and the effect on their locks.

use dlock_core::Key;

use crate::ffi::block::{Block, Noted};
use crate::ffi::context::now;
use crate::moved_keys::TakenLock;
use crate::state::{self, Note, State, Store};

/// Handles a value that a command other than dlock's took from its key.
pub fn unlinked(key: Key<'_>, block: Block) {
    let done = state::with(|state| {
        state.unlinked(key, block);
        state.store.moved_keys.depart();
    });
    if done.is_none() {
        block.keep();
        state::note(Note::Unlinked(key.to_owned(), block));
    }
}

/// Handles an event at a key, or at one of this name in another database.
pub fn key_event(event: &[u8], key: Key<'_>, elsewhere: bool) {
    let arrived = matches!(event, b"restore" | b"rename_to" | b"move_to");
    let done = state::with(|state| {
        if event == b"evicted" && state.evicted(key) {
            return;
        }
        state.finish_taken();
        if arrived {
            state.store.moved_keys.arrive(key, elsewhere);
        }
        state.replaced(key);
        state.node.maybe_free(key);
        state.set_alarm_if_pending();
    });
    if done.is_none() {
        state::note(Note::Changed(key.to_owned()));
    }
}

/// Handles a flush of a database, or of all of them, before it begins.
pub fn flushed(db: Option<u32>) {
    emptied(|key| db.is_none_or(|db| db == key.db));
}

/// Handles the coming removal of all these keys, perhaps without an event for each.
pub fn emptied(goes: impl Fn(Key<'_>) -> bool) {
    state::with(|state| {
        state.finish_taken();
        state.empty(goes);
        state.set_alarm_if_pending();
    });
}

/// Handles SWAPDB of two databases. The locks in them are over.
pub fn swapped(first: u32, second: u32) {
    // The server reports this too, and nothing has changed.
    if first == second {
        return;
    }
    state::with(|state| {
        state.finish_taken();
        let Store { moved_keys, index, .. } = &mut state.store;
        moved_keys.swap(first, second, index);
        for db in [first, second] {
            state.node.flushed(&mut state.store.blocked, Some(db), now());
        }
        state.set_alarm_if_pending();
    });
}

impl State {
    /// Ends a command or an iteration of the event loop: handles the notes taken meanwhile, and sets the
    /// timer.
    pub fn settle(&mut self, now: dlock_core::Instant) {
        self.take_notes();
        self.set_alarm(now);
    }

    /// Handles the events noted while the state was in use.
    pub fn take_notes(&mut self) {
        for note in state::notes() {
            match note {
                Note::Unlinked(key, block) => {
                    self.end_lock(key.as_key(), block);
                    self.store.moved_keys.keep_dead(block);
                    block.release();
                }
                Note::Changed(key) => {
                    self.node.maybe_free(key.as_key());
                    // A lock taken meanwhile may be here now.
                    self.store.moved_keys.look_at(key.as_key());
                }
            }
        }
    }

    /// Makes the next iteration check the block.
    pub fn keep(&mut self, block: Block) {
        if self.store.moved_keys.keep(block) {
            self.set_alarm_if_pending();
        }
    }

    /// Ends the lock that was at the key.
    fn end_lock(&mut self, key: Key<'_>, block: Block) {
        let noted = self.store.index.remove_dead(block);
        self.forget(key, noted, block);
    }

    /// Forgets the lock that was at the key.
    fn forget(&mut self, key: Key<'_>, noted: Vec<Noted>, block: Block) {
        for Noted { token, client } in noted {
            self.node.lost(key, &token, client);
        }
        self.node.removed(&mut self.store.blocked, key, block.top(), now());
    }

    /// Handles a value taken from its key: if it was evicted, the next event says so.
    pub fn unlinked(&mut self, key: Key<'_>, block: Block) {
        self.finish_taken();
        self.store.arriving.slots.gone(key);
        if block.is_dead() {
            self.end_lock(key, block);
            self.store.moved_keys.keep_dead(block);
            self.set_alarm_if_pending();
            return;
        }
        let noted = self.store.index.remove_dead(block);
        self.store.moved_keys.take(TakenLock { key: key.to_owned(), block, noted });
        self.set_alarm_if_pending();
    }

    /// Ends the lock taken last, which was not evicted.
    pub fn finish_taken(&mut self) {
        let Some(TakenLock { key, block, noted }) = self.store.moved_keys.last() else { return };
        self.forget(key.as_key(), noted, block);
        self.store.moved_keys.leave(block);
        self.set_alarm_if_pending();
    }

    /// Handles an eviction: the lock stays held. False if it was not a dlock key.
    pub fn evicted(&mut self, key: Key<'_>) -> bool {
        let Some(TakenLock { key, block, .. }) = self.store.moved_keys.last_at(key) else {
            return false;
        };
        if self.node.is_following() {
            block.release();
            return true;
        }
        block.revive();
        let before = self.store.index.bytes();
        self.store.index.refresh(block);
        let weight = self.store.index.bytes() - before;
        self.store.moved_keys.evicted.add(key, block, weight);
        // The log says that the key is gone.
        self.note_incomplete_log();
        self.set_alarm(now());
        true
    }

    /// Ends all locks at these keys here, and tells their waiters.
    pub fn empty(&mut self, goes: impl Fn(Key<'_>) -> bool) {
        self.store.moved_keys.evicted.forget_all(|key| goes(key.as_key()));
        self.store.index.drain(&goes, |_, _| {});
        self.node.emptied(&mut self.store.blocked, &goes, now());
    }

    /// Ends the evicted lock of a key at which an event happened: so the key had another value, whether
    /// that is still there or not.
    pub fn replaced(&mut self, key: Key<'_>) {
        let evicted = &mut self.store.moved_keys.evicted;
        if evicted.is_empty() {
            return;
        }
        if let Some(block) = evicted.get(key) {
            self.node.pass_on(key, block.top());
            // The key's waiters now wait for another lock.
            for Noted { token, client } in self.store.index.remove_dead(block) {
                self.node.lost(key, &token, client);
            }
            self.store.moved_keys.evicted.forget(key);
        }
    }
}
