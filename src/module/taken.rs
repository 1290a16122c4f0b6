//! What becomes of a lock when the server takes its value from its key.

use dlock_core::Key;

use crate::ffi::block::Block;
use crate::ffi::context::now;
use crate::state::{self, Note, State, Store};
use crate::strays::{Strays, TakenLock};

impl State {
    /// After a command or a turn: what happened meanwhile, and when there is something to do.
    pub fn settle(&mut self, now: dlock_core::Instant) {
        self.take_notes();
        self.set_alarm(now);
    }

    /// What happened while the state was in use.
    pub fn take_notes(&mut self) {
        for note in state::notes() {
            match note {
                Note::Unlinked(key, block) => {
                    self.end_lock(key.as_key(), block);
                    block.release();
                }
                Note::Changed(key) => self.node.maybe_free(key.as_key()),
            }
        }
    }

    /// The next turn looks what has become of the block.
    pub fn keep(&mut self, block: Block) {
        if self.store.strays.keep(block) {
            self.set_alarm_if_pending();
        }
    }

    /// Ends the lock that was at the key.
    fn end_lock(&mut self, key: Key<'_>, block: Block) {
        for (token, client) in self.store.index.remove_dead(block) {
            self.node.lost(key, &token, client);
        }
        self.node.removed(&mut self.store.waiters, key, block.top());
    }

    /// A value was taken from its key: whether it was evicted is told next, if it was.
    pub fn unlinked(&mut self, key: Key<'_>, block: Block) {
        self.finish_taken();
        self.store.migrations.gone(key);
        if block.is_dead() {
            self.end_lock(key, block);
            self.store.strays.keep_dead(block);
            self.set_alarm_if_pending();
            return;
        }
        let ephemerals = self.store.index.remove_dead(block);
        self.store.strays.take(TakenLock { key: key.to_owned(), block, ephemerals });
        self.set_alarm_if_pending();
    }

    /// The value that was taken from its key last was not evicted: its lease is over.
    pub fn finish_taken(&mut self) {
        let Some(TakenLock { key, block, ephemerals }) = self.store.strays.last() else { return };
        for (token, client) in ephemerals {
            self.node.lost(key.as_key(), &token, client);
        }
        self.node.removed(&mut self.store.waiters, key.as_key(), block.top());
        self.store.strays.leave(block);
        self.set_alarm_if_pending();
    }

    /// The key was evicted: the lock stays held. False if it was not a dlock key.
    pub fn evicted(&mut self, key: Key<'_>) -> bool {
        let Some(TakenLock { key, block, .. }) = self.store.strays.last_at(key) else {
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
        self.store.strays.evicted.add(key, block, weight);
        // The log says that the key is gone.
        self.note_incomplete_log();
        self.set_alarm(now());
        true
    }

    /// Somebody else decides from now on.
    pub fn step_down(&mut self) {
        self.finish_taken();
        self.node.follow(&mut self.store.waiters);
        let Store { strays: Strays { evicted, .. }, index, .. } = &mut self.store;
        evicted.blocks().for_each(|block| index.remove(block));
        evicted.forget_all(|_| true);
    }
}
