//! DLOCK.HOT and DLOCK.SLOW: the keys with the longest waits, and the last slow waits and long holds.

use dlock_core::Instant;
use dlock_core::command::{Refusal, hot, slow};
use dlock_core::observed::hot::Figures;
use dlock_core::observed::slow::Entry;
use dlock_core::queue::Queue;
use dlock_core::who::Who;

use crate::ffi::call::{Call, Room};
use crate::ffi::context::{Ctx, now, unix_micros};
use crate::reply::{self, number, text};
use crate::state::{self, State};

/// DLOCK.HOT.
pub fn hot(call: &Call<'_>) {
    list(call, hot::parse, |ctx, state, most| {
        let now = now();
        let worst = state.node.hot(most, now);
        ctx.reply_array(worst.len());
        worst.into_iter().for_each(|(figures, queue)| hot_key(ctx, figures, queue, now));
    });
}

/// DLOCK.SLOW.
pub fn slow(call: &Call<'_>) {
    list(call, slow::parse, |ctx, state, most| {
        let entries = state.node.observed.slow().newest();
        ctx.reply_array(entries.len().min(most));
        let (now, unix) = (now(), unix_micros());
        entries.take(most).for_each(|entry| slow_entry(ctx, entry, now, unix));
    });
}

fn list<'c>(
    call: &Call<'c>,
    parse: fn(&[&'c [u8]]) -> Result<usize, Refusal<'c>>,
    answer: impl FnOnce(Ctx<'c>, &mut State, usize),
) {
    let ctx = call.ctx;
    let mut room = Room::default();
    match call.rest(1, &mut room).ok_or(Refusal::Arity).and_then(parse) {
        Ok(most) => {
            if state::with(|state| answer(ctx, state, most)).is_none() {
                reply::busy(ctx);
            }
        }
        Err(Refusal::Arity) => ctx.reply_wrong_arity(),
        Err(refusal) => ctx.reply_error(refusal),
    }
}

fn hot_key(ctx: Ctx<'_>, figures: &Figures, queue: Option<&Queue>, now: Instant) {
    let oldest = queue.and_then(Queue::first).map_or(0, |first| now.since(first.since));
    ctx.reply_map(9);
    text(ctx, "key", &figures.name);
    number(ctx, "key-bytes", figures.length as u64);
    number(ctx, "db", u64::from(figures.db));
    number(ctx, "waited-ms", figures.waited / 1000);
    number(ctx, "longest-wait-ms", figures.longest().max(oldest) / 1000);
    number(ctx, "waiting", queue.map_or(0, Queue::len) as u64);
    number(ctx, "grants", figures.grants);
    number(ctx, "handovers", figures.hand_overs);
    number(ctx, "denials", figures.denials);
}

fn slow_entry(ctx: Ctx<'_>, entry: &Entry, now: Instant, unix: u64) {
    ctx.reply_map(if entry.holder.is_some() { 10 } else { 8 });
    number(ctx, "number", entry.number);
    text(ctx, "what", entry.what.name());
    // By the present wall clock, which may have been set since.
    number(ctx, "unix-ms", unix.saturating_sub(now.since(entry.ended)) / 1000);
    number(ctx, "ms", entry.micros / 1000);
    text(ctx, "key", &entry.key);
    number(ctx, "db", u64::from(entry.db));
    let Who { id, meta } = &entry.who;
    text(ctx, "id", id);
    text(ctx, "meta", meta);
    if let Some(Who { id, meta }) = &entry.holder {
        text(ctx, "holder-id", id);
        text(ctx, "holder-meta", meta);
    }
}
