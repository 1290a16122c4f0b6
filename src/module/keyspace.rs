//! The server's keyspace as the node sees it.

use std::ffi::CStr;

use dlock_core::command::apply::{write_done, write_end, write_grant, write_removal};
use dlock_core::{
    Answers, Crowd, Deadline, Done, Effect, Ending, Found, Grant, Host, Instant, Key, KeyBuf,
    Memory, Owner, Promise, Serves, Until, WaitOutcome, WaiterId,
};

use crate::ffi::block::Block;
use crate::ffi::context::{Class, Ctx, Name};
use crate::ffi::done;
use crate::ffi::key::Open;
use crate::state::Store;

/// The keyspace during one command, or one iteration of the event loop.
pub struct Keyspace<'s, 'c> {
    ctx: Ctx<'c>,
    store: &'s mut Store,
    /// The last key used. Most commands use one.
    open: Open<'c>,
    /// True if another node decided the effects, which then are not replicated again.
    silent: bool,
    /// True for a command, false for the event loop.
    command: bool,
}

impl<'s, 'c> Keyspace<'s, 'c> {
    /// The keyspace for a command on a key, which is open already.
    pub fn command(ctx: Ctx<'c>, store: &'s mut Store, open: Open<'c>, silent: bool) -> Self {
        Keyspace { ctx, store, open, silent, command: true }
    }

    /// The keyspace for the event loop, which goes from key to key.
    pub fn event_loop(ctx: Ctx<'c>, store: &'s mut Store, silent: bool) -> Self {
        let open = Open::nowhere();
        Keyspace { ctx, store, open, silent, command: false }
    }

    /// Removes the lock at a key to which another command has moved it, unless another lock is there now.
    pub fn remove_dead(&mut self, key: Key<'_>) {
        if matches!(self.find(key), Found::Free | Found::Over { .. }) {
            self.remove_rest(key);
        }
    }

    /// Corrects the database in the lock at the key, which was read with a wrong one.
    pub fn correct(&mut self, key: Key<'_>) {
        let Some(old) = self.at(key).block() else { return };
        if old.is_dead() {
            return self.store.moved_keys.owe_search();
        }
        self.store.index.remove(old);
        let new = self.open.correct(&mut self.store.scratch);
        self.store.index.refresh(new.unwrap_or(old));
    }

    /// Refuses a lock that arrives with its slot. False: the other server ignores errors, and this node must
    /// take the lock all the same.
    pub fn refuses(&mut self, key: Key<'_>) -> bool {
        self.store.arriving.slots.refuses(key.name)
    }

    /// Notes that the largest fence arrives with this key's slot.
    pub fn hear_floor(&mut self, key: Key<'_>) {
        self.store.arriving.slots.hear_floor(key.name);
    }

    /// Makes the index track the block at the open key.
    fn track(&mut self, block: Block) {
        self.store.index_at(self.open.key()).refresh(block);
    }

    /// The key, opened if it is not open already.
    fn at(&mut self, key: Key<'_>) -> &mut Open<'c> {
        if !self.open.is_open() || !self.open.is(key) {
            self.open(key);
        }
        &mut self.open
    }

    #[cold]
    fn open(&mut self, key: Key<'_>) {
        if self.open.is(key) {
            self.open.reopen(self.ctx);
        } else {
            self.open.close();
            self.ctx.select(key.db);
            self.open = Open::write(self.ctx, key.db, Name::new(key.name));
        }
    }

    /// Drops the lock at the key, which is about to go: a dead one may be in the way of a new one.
    fn clear(&mut self, key: Key<'_>) {
        if let Some(block) = self.at(key).block() {
            self.store.index_at(key).remove(block);
        }
    }

    fn replicate(&mut self, effect: &Effect<'_>) {
        let (ctx, name) = (self.ctx, self.open.name());
        let written = &mut self.store.scratch;
        written.clear();
        match *effect {
            Effect::Granted { mode, grant, .. } | Effect::Renewed { mode, grant } => {
                write_grant(mode, &grant, written);
                ctx.replicate_apply(name, written, grant.meta);
            }
            // RELEASE has the same effect everywhere, so it is replicated verbatim.
            Effect::Ended { why: Ending::Released, .. } => ctx.replicate_verbatim(),
            Effect::Ended { token, .. } => {
                write_end(token, written);
                ctx.replicate_apply(name, written, b"");
            }
            Effect::Done { done, until, .. } => {
                write_done(&done, until, written);
                ctx.replicate_apply(name, written, done.meta);
            }
            Effect::AllExpired { .. } => {
                write_removal(written);
                ctx.replicate_apply(name, written, b"");
            }
        }
    }

    /// Reports the change of the key to watchers, and the event to listeners. Listeners may be other modules,
    /// which can do anything, with this key as well: it is not open meanwhile.
    fn announce(&mut self, event: Option<(Class, &CStr)>) {
        self.open.close();
        self.ctx.signal_modified(self.open.name());
        if let Some((class, event)) = event {
            self.ctx.notify(class, event, self.open.name());
        }
    }
}

impl Keyspace<'_, '_> {
    /// Replicates an effect at the open key, as `write` writes it.
    fn replicate_written(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        if self.silent {
            return;
        }
        let written = &mut self.store.scratch;
        written.clear();
        write(written);
        self.ctx.replicate_apply(self.open.name(), written, b"");
    }
}

impl Answers for Keyspace<'_, '_> {
    fn answer(&mut self, waiter: WaiterId, answer: WaitOutcome) {
        self.store.stats.denials += u64::from(answer == WaitOutcome::Denied);
        self.store.blocked.answer(waiter, answer);
    }
}

impl Host for Keyspace<'_, '_> {
    fn find(&mut self, key: Key<'_>) -> Found<'_> {
        if let Some(block) = self.at(key).block()
            && !block.is_in_index()
        {
            self.track(block);
        }
        self.open.found()
    }

    fn first_end(&mut self, key: Key<'_>) -> Option<Deadline> {
        self.at(key).first_end()
    }

    fn put_one(&mut self, key: Key<'_>, grant: Grant<'_>) {
        self.clear(key);
        let block = self.open.put_one(&grant, &mut self.store.scratch);
        self.track(block);
    }

    fn renew_one(&mut self, key: Key<'_>, grant: Grant<'_>) {
        let Some(old) = self.at(key).block() else { return };
        // The keyspace still has the old block.
        self.store.index_at(key).remove(old);
        let new = self.open.renew_one(&grant, &mut self.store.scratch);
        self.track(new.unwrap_or(old));
    }

    fn put_many(&mut self, key: Key<'_>, crowd: Crowd) {
        self.clear(key);
        let block = self.open.put_many(crowd);
        self.track(block);
    }

    fn put_done(&mut self, key: Key<'_>, done: Done<'_>, until: Option<Until>) {
        self.clear(key);
        self.open.put_done(&done);
        // Other modules may have changed the new key when they got its event.
        self.open.close();
        if let Some(until) = until
            && self.at(key).is_done()
        {
            self.open.expire_at(until.unix_ms);
        }
    }

    fn done_by_user(&mut self) -> u64 {
        done::made_by(self.ctx.owner())
    }

    fn changed(&mut self, key: Key<'_>) {
        if let Some(block) = self.at(key).block() {
            self.track(block);
        }
    }

    /// Replicas and the log do the same when they carry out the grant or the extension.
    fn forget_expiry(&mut self, key: Key<'_>) {
        if self.at(key).forget_expiry() {
            self.announce(Some((Class::Generic, c"persist")));
        }
    }

    fn remove(&mut self, key: Key<'_>) {
        self.clear(key);
        self.open.remove();
    }

    fn remove_rest(&mut self, key: Key<'_>) {
        if self.at(key).block().is_some() {
            self.remove(key);
            self.replicate_written(write_removal);
            self.announce(None);
        }
    }

    fn remove_foreign(&mut self, key: Key<'_>) {
        self.at(key).remove();
        self.replicate_written(write_removal);
        self.announce(Some((Class::Generic, c"del")));
    }

    fn tell(&mut self, key: Key<'_>, effect: Effect<'_>) {
        self.at(key);
        if !self.silent {
            self.store.stats.count(&effect);
            if self.command && !self.store.replication.is_possible() {
                // No replica gets it, but the server counts it as a change to save.
                self.ctx.replicate_verbatim();
            } else {
                self.replicate(&effect);
            }
        }
        let event = match effect {
            Effect::Granted { .. } => Some(c"dlock.acquire"),
            Effect::Done { .. } => Some(c"dlock.done"),
            Effect::AllExpired { .. } | Effect::Ended { why: Ending::Expired, .. } => {
                Some(c"dlock.expire")
            }
            Effect::Ended { why: Ending::Broken, .. } => Some(c"dlock.break"),
            Effect::Ended { .. } => Some(c"dlock.release"),
            Effect::Renewed { .. } => None,
        };
        self.announce(event.map(|event| (Class::Own, event)));
    }

    fn memory(&mut self) -> Memory {
        self.store.memory()
    }

    fn may_block(&mut self) -> bool {
        !self.ctx.flags().denies_blocking()
    }

    fn owner(&mut self) -> Owner {
        self.ctx.owner()
    }

    fn serves(&mut self, key: Key<'_>) -> Serves {
        self.open.close();
        self.ctx.select(key.db);
        self.ctx.serves(&Name::new(key.name))
    }

    fn promise(&mut self, promise: &Promise) -> bool {
        self.store.durability.write_now(promise)
    }

    fn due(&mut self, now: Instant) -> Option<KeyBuf> {
        loop {
            let (key, block) = self.store.index.due(now)?;
            if self.at(key.as_key()).block() == Some(block) {
                return Some(key);
            }
            // The key has another block. This one may have left the index by now, and been freed.
            if self.store.index.due(now).is_some_and(|(_, again)| again == block) {
                self.store.index.remove(block);
            }
        }
    }
}
