//! What the server does to locks, and how they take it.
//!
//! Everything here can run in the middle of somebody else's command, so it writes nothing: it
//! answers waiters, brings the index up to date, and leaves the rest to the next turn, which
//! comes before the server sleeps.

use dlock_core::{Answer, ClientId, Fence, Key, Millis, WaiterId};

use crate::evicted::Taken;
use crate::fences;
use crate::ffi::alarm::OnAlarm;
use crate::ffi::block::Block;
use crate::ffi::context::{Ctx, now, unix_micros};
use crate::ffi::waiter::{Callbacks, Handle};
use crate::state::{self, Note, State, Store};

/// The module is being loaded. The server forgets what it has registered until here, should this
/// fail; so nothing may be subscribed to before.
pub fn starting(ctx: Ctx<'_>) -> Result<(), String> {
    state::with(|state| state.open_books(ctx)).unwrap_or(Ok(()))
}

/// The module has been loaded. The data set has not, so nothing is decided yet.
pub fn started(ctx: Ctx<'_>, hears_of_keys: bool, on_alarm: OnAlarm, for_waiters: Callbacks) {
    let (most, evicts_marks) = (ctx.max_memory(), fences::evicts_marks(ctx));
    state::with(|state| {
        state.store.evicts_marks = evicts_marks;
        state.store.alarm.install(ctx, on_alarm);
        state.store.waiters.install(for_waiters);
        state.store.max_memory = most;
        state.store.hears_of_keys = hears_of_keys;
        state.node.is_deaf = !hears_of_keys;
        state.node.follow(&mut state.store.waiters);
        let now = now();
        state.store.alarm.set(now, now);
    });
}

/// The server shuts down. Everything that it saves has been saved.
pub fn shut_down() {
    state::with(State::close_books);
}

/// A configuration parameter has changed.
pub fn configured(ctx: Ctx<'_>) {
    audience();
    let (most, evicts_marks) = (ctx.max_memory(), fences::evicts_marks(ctx));
    state::with(|state| {
        state.store.max_memory = most;
        state.store.evicts_marks = evicts_marks;
    });
    // Asked outside of `with`, for the answer comes through the server.
    let kept = state::with(|state| state.store.log_is_kept).unwrap_or(false);
    if kept && !ctx.log_is_complete() {
        state::with(State::note_incomplete_log);
    }
}

/// The log is about to be switched, on or off. The server may take that back without a word, if it
/// refuses another setting in the same command, and begins a new log then.
pub fn log_is_switched() {
    state::with(|state| {
        if state.store.log_is_kept {
            state.note_incomplete_log();
        }
    });
}

/// A lock has been read, from a file or from a payload. A payload can be refused after all, so
/// the next turn looks whether the lock is anywhere. An error says why nobody wants it.
pub fn loaded(
    key: Key<'_>,
    block: Block,
    fence: Option<Fence>,
    ttl: Millis,
) -> Result<(), &'static str> {
    let wanted = state::with(|state| {
        let unix = state.time().unix;
        let fence = fence.unwrap_or(Fence(0));
        if !state.node.is_following() {
            if state.node.is_too_far(fence, unix) {
                return Err("a stored fence is more than ten minutes ahead of this server");
            }
            if !state.cover(fence, ttl) {
                return Err("the state file cannot be written, and does not cover a stored lease");
            }
            state.store.moving = true;
            state.keep(block);
        }
        state.node.heard_of(key, fence, ttl);
        let Store { incoming, index, .. } = &mut state.store;
        incoming.index().unwrap_or(index).refresh(block);
        if fence == Fence(0) {
            state.store.arrivals.push_back(key.to_owned());
        }
        Ok(())
    });
    wanted.unwrap_or(Ok(()))
}

/// A value was taken from its key by a command that is not ours.
pub fn unlinked(key: Key<'_>, block: Block) {
    let done = state::with(|state| {
        state.unlinked(key, block);
        state.store.moving = true;
    });
    if done.is_none() && block.keep() {
        state::note(Note::Unlinked(key.to_owned(), block));
    }
}

/// Something has happened to a key, or to one of this name in another database.
pub fn key_event(event: &[u8], key: Key<'_>, elsewhere: bool) {
    let arrived = matches!(event, b"restore" | b"rename_to" | b"move_to");
    let done = state::with(|state| {
        if event == b"evicted" && state.evicted(key) {
            return;
        }
        state.finish_taken();
        // Nothing of ours arrives but what has just been taken from elsewhere, or read.
        if arrived && std::mem::take(&mut state.store.moving) {
            state.store.arrivals.push_back(key.to_owned());
            state.store.owes_search |= elsewhere;
        }
        state.node.maybe_free(key);
        state.set_alarm_if_pending();
    });
    if done.is_none() {
        state::note(Note::Changed(key.to_owned()));
    }
}

/// A database, or all of them, is about to be emptied.
pub fn flushed(db: Option<u32>) {
    state::with(|state| {
        state.finish_taken();
        state.store.evicted.forget_all(|of| db.is_none_or(|db| db == of));
        state.store.index.drain(|of| db.is_none_or(|db| db == of), |_, _| {});
        state.node.flushed(&mut state.store.waiters, db);
    });
}

/// Two databases have changed places. Whose locks were they? Nobody's, from now on.
pub fn swapped(first: u32, second: u32) {
    // Told as well, and nothing has changed.
    if first == second {
        return;
    }
    state::with(|state| {
        state.finish_taken();
        state.store.evicted.forget_all(|db| db == first || db == second);
        let Store { arrivals, index, search, owes_search, .. } = &mut state.store;
        let swapped = |db| if db == first { second } else { first };
        for key in arrivals.iter_mut().filter(|key| key.db == first || key.db == second) {
            key.db = swapped(key.db);
        }
        // What it has not seen yet may be where it has been.
        *owes_search |= search.is_some();
        index.drain(
            |db| db == first || db == second,
            |block, key| {
                block.kill();
                arrivals.push_back(Key { db: swapped(key.db), ..key }.to_owned());
            },
        );
        for db in [first, second] {
            state.node.flushed(&mut state.store.waiters, Some(db));
        }
        state.set_alarm_if_pending();
    });
}

/// This server is a replica from now on, or none any more.
pub fn role_changed(replica: bool) {
    state::with(|state| {
        let now = now();
        state.store.audience.may_have_come();
        if replica {
            state.step_down();
            // What it knows is from its primary from now on, and may lack what is on its way.
            state.note_incomplete_log();
        } else if state.store.beginning.is_none() {
            let time = state.time();
            state.node.promoted(time);
            state.promise_now();
            state.log_quarantine();
        }
        state.set_alarm(now);
    });
}

/// What the server says of loading.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Loading {
    /// A log is being loaded.
    Log,
    /// Another kind of data set is.
    Other,
    /// It has been, or could not be.
    Ended,
}

/// The data set is being loaded, or has been.
pub fn loading(ctx: Ctx<'_>, step: Loading) {
    let begins = step != Loading::Ended;
    let replica = ctx.flags().is_replica();
    state::with(|state| {
        let now = now();
        state.store.audience.may_have_come();
        state.store.is_loading = begins;
        state.store.loads_log |= step == Loading::Log;
        if begins {
            if !state.store.incoming.spares() {
                state.step_down();
            }
        } else if state.store.incoming.end() {
            // What there was is still there, and all that is known of it.
        } else if state.store.beginning.is_some() {
            state.begin(ctx);
        } else if replica {
            state.node.synced();
        } else {
            let time = state.time();
            state.node.replaced(time);
            state.store.log_is_kept = false;
            state.promise_now();
            state.log_quarantine();
        }
        state.set_alarm(now);
    });
}

/// A connection has closed.
pub fn disconnected(client: ClientId) {
    state::with(|state| {
        state.node.closed(client);
        state.set_alarm_if_pending();
    });
}

/// A blocked client is gone, whatever the reason.
pub fn waiter_gone(handle: Handle) {
    state::with(|state| {
        if let Some(waiter) = state.store.waiters.gone(handle) {
            state.node.gone(waiter, now());
        }
        state.set_alarm_if_pending();
    });
}

/// A blocked client gets its answer.
pub fn answered(waiter: WaiterId, handle: Handle, answer: Answer) {
    state::with(|state| {
        state.store.stats.denials += u64::from(answer == Answer::Denied);
        state.store.waiters.answered(handle);
        state.node.delivered(waiter);
    });
}

/// Somebody may listen to what is replicated from now on.
pub fn audience() {
    state::with(|state| {
        state.store.audience.may_have_come();
        state.store.tell_promise = true;
        state.set_alarm_if_pending();
    });
}

/// Ten times a second or so. The alarm follows the wall clock, which may have been set back.
pub fn cron(ctx: Ctx<'_>) {
    state::with(|state| {
        let now = now();
        state.node.clock.look(now, unix_micros());
        state.store.audience.look(ctx);
        state.node.look_at_places(now, ctx.avoids_traffic());
        state.begin_if_loaded(ctx);
        state.keep_books(now);
        state.store.alarm.trust();
        state.set_alarm(now);
        if state.next(now).is_some_and(|at| at <= now) {
            state.store.alarm.reset(now, now);
        }
    });
}

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
                    self.over(key.as_key(), block);
                    block.unkeep();
                }
                Note::Changed(key) => self.node.maybe_free(key.as_key()),
            }
        }
    }

    /// The next turn looks what has become of the block.
    fn keep(&mut self, block: Block) {
        if block.keep() {
            self.store.taken.insert(block);
            self.set_alarm_if_pending();
        }
    }

    /// The lock that was at the key is over.
    fn over(&mut self, key: Key<'_>, block: Block) {
        for (token, client) in self.store.index.bury(block) {
            self.node.lost(key, &token, client);
        }
        self.node.removed(&mut self.store.waiters, key, block.top());
    }

    /// A value was taken from its key: whether it was evicted is told next, if it was.
    fn unlinked(&mut self, key: Key<'_>, block: Block) {
        self.finish_taken();
        if block.is_dead() {
            self.over(key, block);
            if !self.store.hears_of_keys {
                self.keep(block);
            }
            return;
        }
        let ephemerals = self.store.index.bury(block);
        if !block.keep() {
            // Read just now, and looked for already: that share serves for this, too.
            self.store.taken.remove(&block);
        }
        self.store.last_taken = Some(Taken { key: key.to_owned(), block, ephemerals });
        self.set_alarm_if_pending();
    }

    /// What was taken from its key was not evicted: its lease is over.
    pub fn finish_taken(&mut self) {
        let Some(Taken { key, block, ephemerals }) = self.store.last_taken.take() else { return };
        for (token, client) in ephemerals {
            self.node.lost(key.as_key(), &token, client);
        }
        self.node.removed(&mut self.store.waiters, key.as_key(), block.top());
        if self.store.hears_of_keys {
            block.unkeep();
        } else {
            self.store.taken.insert(block);
            self.set_alarm_if_pending();
        }
    }

    /// It was: the lock stays held. False: it was none of ours.
    fn evicted(&mut self, key: Key<'_>) -> bool {
        let evicted = self.store.last_taken.take_if(|taken| taken.key.as_key() == key);
        let Some(Taken { key, block, .. }) = evicted else { return false };
        if self.node.is_following() {
            block.unkeep();
            return true;
        }
        block.revive();
        let before = self.store.index.bytes();
        self.store.index.refresh(block);
        let weight = self.store.index.bytes() - before;
        self.store.evicted.add(key, block, weight);
        // The log says that the key is gone.
        self.note_incomplete_log();
        self.set_alarm(now());
        true
    }

    /// Somebody else decides from now on.
    fn step_down(&mut self) {
        self.finish_taken();
        self.node.follow(&mut self.store.waiters);
        let Store { evicted, index, .. } = &mut self.store;
        evicted.blocks().for_each(|block| index.remove(block));
        evicted.forget_all(|_| true);
    }

    fn set_alarm_if_pending(&mut self) {
        if self.node.has_pending() || self.store.has_strays() {
            let now = now();
            self.store.alarm.set(now, now);
        }
    }
}
