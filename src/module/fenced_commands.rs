//! FENCED: commands that a mark accepts by their holder's fence.

use std::sync::atomic::{AtomicBool, Ordering};

use dlock_core::command::{Refusal, Touch, apply, fenced};
use dlock_core::durability::mark::{self, Verdict};
use dlock_core::{Fence, Key, Time};

use crate::ffi::call::Call;
use crate::ffi::context::Ctx;
use crate::ffi::inner::Inner;
use crate::ffi::key::Open;
use crate::reply;
use crate::state::{self, State};

/// True if the server would crash when it asks for the keys of FENCED, so the command does not tell them.
pub static WOULD_CRASH: AtomicBool = AtomicBool::new(false);

/// DLOCK.FENCED.
pub fn fenced(call: &Call<'_>) {
    if call.asks_for_keys() {
        return call.tell_keys(Touch::Makes, fenced::INNER);
    }
    match show(call) {
        Ok(()) => {}
        Err(Refusal::Arity) => call.ctx.reply_wrong_arity(),
        Err(refusal) => call.ctx.reply_error(refusal),
    }
}

fn show<'c>(call: &Call<'c>) -> Result<(), Refusal<'c>> {
    let fence = call.arg(2).ok_or(Refusal::Arity)?;
    let Some(time) = decides(call)? else { return replay(call, fenced::effect(fence)?) };
    if WOULD_CRASH.load(Ordering::Relaxed) {
        return Err(Refusal::Threads);
    }
    let fence = fenced::parse(fence, call.arg(fenced::INNER))?;
    if let Some(name) = call.arg(fenced::INNER)
        && !call.may_be_inside(fenced::INNER)
    {
        return Err(Refusal::Foreign(name));
    }
    let before = raise(call, fence, time)?;
    if call.len() <= fenced::INNER {
        call.ctx.reply_status("OK");
    } else {
        match call.carry_out(fenced::INNER) {
            Inner::Ran(reply) => reply.give(),
            Inner::NoReply => call.ctx.reply_error(NO_REPLY),
            Inner::Refused(words) => {
                if let Some(before) = before {
                    put_back(call, before);
                }
                call.ctx.reply_error(&words);
                return Ok(());
            }
        }
    }
    if before.is_some()
        && let Some(name) = call.name(1)
    {
        call.ctx.signal_modified(&name);
    }
    Ok(())
}

/// The client's error, if a command has left no reply, or more than one.
const NO_REPLY: &str = "ERR the command has run, and the server gave no usable reply";

/// DLOCK.APPLY of a mark.
pub fn apply(call: &Call<'_>, fence: &[u8]) {
    let applied = match decides(call) {
        Ok(None) => fenced::effect(fence).and_then(|fence| replay(call, fence)),
        _ => Err(Refusal::Internal(apply::DOC.name)),
    };
    if let Err(refusal) = applied {
        call.ctx.reply_error(refusal);
    }
}

/// Returns the time, or `None` if this server carries out another node's decisions.
fn decides<'c>(call: &Call<'c>) -> Result<Option<Time>, Refusal<'c>> {
    let decides = state::with(|state| {
        state.begin_if_loaded(call.ctx);
        let time = state.time();
        let told = state.is_told(call.ctx);
        if !(told || state.node.is_following()) {
            return if state.store.memory.evicts_any {
                Err(Refusal::Evicts)
            } else {
                Ok(Some(Time { unix: state.node.durable.counter.unix(), ..time }))
            };
        }
        if told || call.ctx.flags().is_replay() { Ok(None) } else { Err(Refusal::Replica) }
    });
    decides.unwrap_or(Err(Refusal::Busy))
}

/// Sets the mark to the fence that the primary or the log gives.
fn replay<'c>(call: &Call<'c>, fence: Option<Fence>) -> Result<(), Refusal<'c>> {
    let mut mark = Mark::open(call)?;
    mark.persist();
    mark.set(fence);
    call.ctx.signal_modified(mark.key.name());
    call.ctx.reply_status("OK");
    Ok(())
}

/// Raises the mark, if it has not seen a larger fence. Returns its former state, if it has risen.
fn raise<'c>(
    call: &Call<'c>,
    fence: Fence,
    time: Time,
) -> Result<Option<Option<Fence>>, Refusal<'c>> {
    let most = mark::most(time.unix);
    if fence > most {
        return Err(Refusal::Poison { given: fence, most });
    }
    let mut mark = Mark::open(call)?;
    let before = mark.fence;
    match mark::show(before, fence) {
        Verdict::Stale(seen) => {
            mark.persist();
            return Err(Refusal::Stale { mark: seen, given: fence });
        }
        Verdict::Same => mark.persist(),
        Verdict::Rises => {
            if before.is_none() && call.ctx.flags().is_out_of_memory() {
                return Err(Refusal::NoMemory);
            }
            mark.persist();
            mark.set(Some(fence));
            return Ok(Some(before));
        }
    }
    Ok(None)
}

/// Restores the mark, here and on replicas, after an inner command that has not begun.
fn put_back(call: &Call<'_>, before: Option<Fence>) {
    if let Ok(mut mark) = Mark::open(call) {
        mark.set(before);
    }
}

/// An open mark, and the largest fence that it has seen.
struct Mark<'c> {
    ctx: Ctx<'c>,
    key: Open<'c>,
    fence: Option<Fence>,
}

impl<'c> Mark<'c> {
    fn open(call: &Call<'c>) -> Result<Mark<'c>, Refusal<'c>> {
        let (ctx, name) = (call.ctx, call.name(1).ok_or(Refusal::Arity)?);
        let key = Open::write(ctx, ctx.db(), name);
        let fence = key.mark()?;
        Ok(Mark { ctx, key, fence })
    }

    /// Sets the fence, here and on replicas; `None` removes the mark.
    fn set(&mut self, fence: Option<Fence>) {
        match (self.fence, fence) {
            (_, Some(fence)) => self.key.put_mark(fence),
            (Some(_), None) => self.key.remove(),
            (None, None) => return,
        }
        self.fence = fence;
        self.replicate();
    }

    /// Removes an expiry that another command has set: marks never expire.
    fn persist(&mut self) {
        if self.fence.is_some() && self.key.forget_expiry() {
            self.replicate();
        }
    }

    /// Replicates DLOCK.APPLY and not DLOCK.FENCED, because a callback returns FENCED's keys. While slots migrate,
    /// Redis 8.6 asks for the keys of a replicated command, and replicates it again at the end of that callback, for
    /// ever.
    fn replicate(&self) {
        // Room for the longest effect, of 17 bytes.
        let mut effect = Vec::with_capacity(24);
        apply::write_mark(self.fence, &mut effect);
        self.ctx.replicate_apply(self.key.name(), &effect, b"");
    }
}

/// DLOCK.MARK.
pub fn mark(call: &Call<'_>) {
    let (Some(name), 2) = (call.name(1), call.len()) else { return call.ctx.reply_wrong_arity() };
    match Open::read(call.ctx, call.ctx.db(), name).mark() {
        Ok(fence) => reply::optional(call.ctx, fence.map(|fence| fence.0)),
        Err(reason) => call.ctx.reply_error(reason),
    }
}

/// Accepts a mark that was read from a file or a payload. It never lowers the mark that it replaces (`there`):
/// neither by a client's RESTORE, nor by a RESTORE that is repeated when the log is loaded.
pub fn loaded(fence: Fence, key: Key<'_>, there: impl FnOnce() -> Option<Fence>) -> Option<Fence> {
    let (most, is_beside) = state::with(|state| {
        let is_clients = !state.store.arriving.load.is_loading() && !state.node.is_following();
        let most = is_clients.then(|| mark::most(now_of(state)));
        (most, state.store.arriving.load.is_beside())
    })?;
    // The log and the primary have accepted their fences.
    if most.is_some_and(|most| fence > most)
        && state::with(|state| state.refuses(key.name)).unwrap_or(true)
    {
        return None;
    }
    // A data set that is loaded beside the present one replaces all of it.
    Some(if is_beside { fence } else { mark::restored(fence, there()) })
}

/// Returns the time of the fences.
fn now_of(state: &mut State) -> u64 {
    state.time();
    state.node.durable.counter.unix()
}
