//! Keys changed by other commands, and the effect on their locks.

use dlock_core::Key;

use crate::ffi::block::{Block, Noted};
use crate::ffi::context::now;
use crate::moved_keys::TakenLock;
use crate::state::{self, Note, State, Store};

/// Handles a value taken from its key, but not by a command of dlock.
pub fn unlinked(key: Key<'_>, block: Block) {
    block.keep();
    let done = state::with(|state| {
        state.unlinked(key, block);
    });
    if done.is_none() {
        state::note(Note::Unlinked(key.to_owned(), block));
    }
}

/// Handles an event at a key.
pub fn key_event(event: &[u8], key: Key<'_>) {
    let done = state::with(|state| {
        if event == b"evicted" && state.evicted(key) {
            return;
        }
        state.finish_taken();
        state.node.maybe_free(key);
        state.set_alarm_if_pending();
    });
    if done.is_none() {
        state::note(Note::Changed(key.to_owned()));
    }
}

/// Handles a flush of a database, or of all of them, before it begins.
pub fn flushed(db: Option<u32>) {
    state::with(|state| {
        state.finish_taken();
        state.drain(|key| db.is_none_or(|db| db == key.db), |_| {});
        state.node.flushed(&mut state.store.blocked, db, now());
        state.set_alarm_if_pending();
    });
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
    let goes = |key: Key<'_>| key.db == first || key.db == second;
    state::with(|state| {
        state.finish_taken();
        let mut any = false;
        state.drain(goes, |block| {
            block.kill();
            any = true;
        });
        state.store.moved_keys.swapped(any);
        let now = now();
        state.node.emptied(&mut state.store.blocked, goes, now);
        state.set_alarm(now);
    });
}

impl State {
    /// Ends a command or an iteration of the event loop: handles the notes taken meanwhile, and sets the timer.
    pub fn settle(&mut self, now: dlock_core::Instant) {
        self.take_notes();
        self.set_alarm(now);
    }

    /// Handles the events noted while the state was in use.
    pub fn take_notes(&mut self) {
        for note in state::notes() {
            match note {
                Note::Unlinked(key, block) => {
                    let lock = self.take_out(key.as_key(), block);
                    self.lose(lock);
                }
                Note::Changed(key) => self.node.maybe_free(key.as_key()),
            }
        }
    }

    /// Makes the next iteration check the block.
    pub fn keep(&mut self, block: Block) {
        let Store { moved_keys, index, .. } = &mut self.store;
        if moved_keys.keep(block, index) {
            self.set_alarm_if_pending();
        }
    }

    /// Handles a value taken from its key, with a share in its block: if it was evicted, the next event says so.
    fn unlinked(&mut self, key: Key<'_>, block: Block) {
        self.finish_taken();
        let lock = self.take_out(key, block);
        self.store.moved_keys.take(lock);
        self.set_alarm_if_pending();
    }

    /// Ends the lock taken last, which was not evicted.
    pub fn finish_taken(&mut self) {
        if let Some(lock) = self.store.moved_keys.last() {
            self.lose(lock);
            self.set_alarm_if_pending();
        }
    }

    /// Handles an eviction: the key stays shut until the lease would have ended. False if it was not a dlock key. Where
    /// only keys with an expiry are evicted, a client had set one, which ends the lease.
    fn evicted(&mut self, key: Key<'_>) -> bool {
        let Some(lock) = self.store.moved_keys.last_at(key) else { return false };
        match lock.end {
            Some(end) if self.store.memory.evicts_any => {
                self.forget_noted(key, &lock.noted);
                self.node.evict(key, end, lock.block.top());
                lock.block.release();
                self.store.arriving.slots.hold_back(key.name);
            }
            _ => self.lose(lock),
        }
        self.set_alarm_if_pending();
        true
    }

    /// Takes a lock out of the index, when the server has taken its value from the key.
    fn take_out(&mut self, key: Key<'_>, block: Block) -> TakenLock {
        let end = block.last_end().filter(|_| !block.is_dead());
        let noted = self.store.index_at(key).remove_dead(block);
        TakenLock { key: key.to_owned(), block, noted, end }
    }

    /// Ends a lock that was taken from its key, and answers its waiters.
    fn lose(&mut self, TakenLock { key, block, noted, .. }: TakenLock) {
        self.forget_noted(key.as_key(), &noted);
        self.node.removed(&mut self.store.blocked, key.as_key(), block.top(), now());
        let Store { moved_keys, index, .. } = &mut self.store;
        moved_keys.leave(block, index);
    }

    fn forget_noted(&mut self, key: Key<'_>, noted: &[Noted]) {
        for Noted { token, client } in noted {
            self.node.lost(key, token, *client);
        }
    }

    /// Ends all locks at these keys here, and answers their waiters.
    pub fn empty(&mut self, goes: impl Fn(Key<'_>) -> bool) {
        self.drain(&goes, |_| {});
        self.node.emptied(&mut self.store.blocked, goes, now());
    }

    /// Ends all locks at these keys, and calls `each` with each of them.
    fn drain(&mut self, goes: impl Fn(Key<'_>) -> bool, mut each: impl FnMut(Block)) {
        for index in [&mut self.store.index, &mut self.store.arriving.slots.index] {
            index.drain(&goes, |block, _| each(block));
        }
    }
}
