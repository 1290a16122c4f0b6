//! The handlers of the commands.

use dlock_core::command::apply::Apply;
use dlock_core::command::{Refusal, acquire, apply, r#break, check, extend, promise, release};
use dlock_core::limits::MAX_KEY;
use dlock_core::{Acquired, Key, Node, Reason, Time, WaitOutcome, WaiterId};

use crate::fenced_commands;
use crate::ffi::call::{Call, Room};
use crate::ffi::context::{Ctx, Name, log, now};
use crate::ffi::key::Open;
use crate::inspection::{self, Named};
use crate::keyspace::Keyspace;
use crate::reply;
use crate::state::{self, State};

/// The result of a command.
enum Outcome {
    Int(u64),
    Null,
    /// Null: the lock was not granted.
    Denied,
    Waits(WaiterId),
    /// The reply has been given.
    Done,
}

type Result<'c> = std::result::Result<Outcome, Refusal<'c>>;

/// DLOCK.ACQUIRE.
pub fn acquire(call: &Call<'_>) {
    let client = call.ctx.client();
    on_key(call, Open::write, |node, keyspace, key, time| {
        let mut room = Room::default();
        let args = call.rest(2, &mut room).ok_or(Refusal::Arity)?;
        let ask = acquire::parse(args)?;
        if node.is_following() {
            return Err(Refusal::Replica);
        }
        if ask.ephemeral && !call.ctx.has_connection(client) {
            return Err(Refusal::NoConnection);
        }
        Ok(match node.acquire(keyspace, key, &ask, client, time)? {
            Acquired::Granted(fence) => Outcome::Int(fence.0),
            Acquired::Denied => Outcome::Denied,
            Acquired::Waiting(waiter) => Outcome::Waits(waiter),
        })
    });
}

/// DLOCK.RELEASE.
pub fn release(call: &Call<'_>) {
    on_key(call, Open::write, |node, keyspace, key, time| {
        let mut room = Room::default();
        let ask = release::parse(call.rest(2, &mut room).ok_or(Refusal::Arity)?)?;
        replayed(call, node)?;
        Ok(Outcome::Int(node.release(keyspace, key, &ask, time)?.into()))
    });
}

/// DLOCK.EXTEND.
pub fn extend(call: &Call<'_>) {
    let client = call.ctx.client();
    on_key(call, Open::write, |node, keyspace, key, time| {
        let mut room = Room::default();
        let args = call.rest(2, &mut room).ok_or(Refusal::Arity)?;
        let ask = extend::parse(args)?;
        replayed(call, node)?;
        Ok(Outcome::Int(node.extend(keyspace, key, &ask, client, time)?.into()))
    });
}

/// DLOCK.CHECK.
pub fn check(call: &Call<'_>) {
    on_key(call, Open::read, |node, keyspace, key, time| {
        let mut room = Room::default();
        let token = check::parse(call.rest(2, &mut room).ok_or(Refusal::Arity)?)?;
        let fence = node.check(keyspace, key, token, time)?;
        Ok(fence.map_or(Outcome::Null, |fence| Outcome::Int(fence.0)))
    });
}

/// DLOCK.INSPECT.
pub fn inspect(call: &Call<'_>) {
    show_lock(call, Named::ById);
}

/// DLOCK.TOKENS.
pub fn tokens(call: &Call<'_>) {
    show_lock(call, Named::ByToken);
}

fn show_lock(call: &Call<'_>, named: Named) {
    on_key(call, Open::read, |node, keyspace, key, time| {
        if call.len() > 2 {
            return Err(Refusal::Arity);
        }
        inspection::reply(call.ctx, node, keyspace, key, time, named)?;
        Ok(Outcome::Done)
    });
}

/// DLOCK.BREAK.
pub fn break_lock(call: &Call<'_>) {
    on_key(call, Open::write, |node, keyspace, key, time| {
        let mut room = Room::default();
        let token = r#break::parse(call.rest(2, &mut room).ok_or(Refusal::Arity)?)?;
        replayed(call, node)?;
        Ok(Outcome::Int(node.break_lock(keyspace, key, token, time)? as u64))
    });
}

/// DLOCK.APPLY.
pub fn apply(call: &Call<'_>) {
    if let (3, Some(fence)) = (call.len(), call.arg(2).and_then(apply::mark)) {
        return fenced_commands::apply(call, fence);
    }
    on_key(call, Open::write, |node, keyspace, key, time| {
        if !call.ctx.flags().is_replay() {
            return Err(Refusal::Internal(apply::DOC.name));
        }
        let mut room = Room::default();
        let args = call.rest(2, &mut room).ok_or(Refusal::Arity)?;
        let apply = apply::parse(args)?;
        if let Err(reason) = node.believe(&apply, time) {
            // A bare fence, which counts for all keys, is always refused.
            if keyspace.refuses(key) || matches!(apply, Apply::Floor(_)) {
                return Err(reason.into());
            }
            log(c"warning", &format!("a lock arrives with its slot: {reason}"));
        }
        replayed(call, node)?;
        node.apply(keyspace, key, &apply, time);
        if matches!(apply, Apply::Floor(_)) {
            keyspace.hear_floor(key);
        }
        Ok(Outcome::Int(1))
    });
}

/// DLOCK.PROMISE.
pub fn promise(call: &Call<'_>) {
    let heard = state::with(|state| {
        if !call.ctx.flags().is_replay() {
            return Err(Refusal::Internal(promise::DOC.name));
        }
        let mut room = Room::default();
        let args = call.rest(1, &mut room).ok_or(Refusal::Arity)?;
        state.node.durable.inherit(promise::parse(args)?, now());
        replayed(call, &state.node)
    });
    match heard {
        Some(Ok(())) => call.ctx.reply_int(1),
        Some(Err(refusal)) => call.ctx.reply_error(refusal),
        None => reply::busy(call.ctx),
    }
}

/// DLOCK.PROBE. Its only result is that the server let it run.
pub fn probe(call: &Call<'_>) {
    if call.len() == 2 { call.ctx.reply_int(1) } else { call.ctx.reply_wrong_arity() }
}

/// Carries a command out on its key, and replies.
fn on_key<'c>(
    call: &Call<'c>,
    open: fn(Ctx<'c>, u32, Name) -> Open<'c>,
    work: impl FnOnce(&mut Node, &mut Keyspace<'_, 'c>, Key<'_>, Time) -> Result<'c>,
) {
    let ctx = call.ctx;
    let mut copy = Box::default();
    let (Some(name), Some(bytes)) = (call.name(1), call.key(1, &mut copy)) else {
        return ctx.reply_wrong_arity();
    };
    if let Err(refusal) = check_name(ctx, bytes) {
        return ctx.reply_error(refusal);
    }
    let key = Key { db: ctx.db(), name: bytes };
    // The key is opened first: if it has expired, the server removes it now, and reports the removal.
    let mut open = open(ctx, key.db, name);
    let done = state::with(|state| {
        if state.store.is_unsettled() {
            open.close();
            state.finish_taken();
            state.begin_if_loaded(ctx);
        }
        let time = state.time();
        let obeys = state.is_told(ctx);
        if obeys {
            state.node.obey(true);
        }
        let State { node, store } = state;
        let silent = node.is_following();
        let mut keyspace = Keyspace::command(ctx, store, open, silent);
        let mut outcome = work(node, &mut keyspace, key, time);
        drop(keyspace);
        if obeys {
            state.node.obey(false);
            if !state.cover_all() && state.store.arriving.slots.refuses(key.name) {
                outcome = Err(Reason::NotDurable.into());
            }
        }
        match outcome {
            Ok(Outcome::Int(n)) => ctx.reply_int(n),
            Ok(Outcome::Null) => ctx.reply_null(),
            Ok(Outcome::Denied) => {
                state.store.stats.denials += 1;
                ctx.reply_null();
            }
            Ok(Outcome::Waits(waiter)) => wait(call, state, waiter),
            Ok(Outcome::Done) => {}
            Err(Refusal::Arity) => ctx.reply_wrong_arity(),
            Err(refusal) => ctx.reply_error(refusal),
        }
        if state.node.is_following() && !state.node.durable.is_covered() {
            state.keep_state_file(time.now);
        }
        state.settle(time.now);
    });
    if done.is_none() {
        reply::busy(ctx);
    }
}

/// Refuses a name that is too long for a lock. Another command can move a lock to any name, and replicas have to hear
/// of its end.
fn check_name<'c>(ctx: Ctx<'_>, name: &[u8]) -> std::result::Result<(), Refusal<'c>> {
    if name.len() <= MAX_KEY || ctx.flags().is_replay() {
        return Ok(());
    }
    Err(Refusal::Length { what: "key", least: 0, most: MAX_KEY, given: name.len() })
}

/// Replicates a command verbatim on a replica and on a server that loads its data: both carry out decisions of
/// another node. Refuses all other writes there.
fn replayed<'c>(call: &Call<'_>, node: &Node) -> std::result::Result<(), Refusal<'c>> {
    if !node.is_following() {
        return Ok(());
    }
    if !call.ctx.flags().is_replay() {
        return Err(Refusal::Replica);
    }
    call.ctx.replicate_verbatim();
    Ok(())
}

/// Makes the client wait for its answer, which may exist already.
fn wait(call: &Call<'_>, state: &mut State, waiter: WaiterId) {
    if let Some(answer) = state.store.blocked.early(waiter) {
        return reply::answer(call.ctx, answer);
    }
    if !state.store.blocked.block(call.ctx, waiter) {
        state.node.gone(waiter, now());
        reply::answer(call.ctx, WaitOutcome::Denied);
    }
}
