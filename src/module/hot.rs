//! DLOCK.HOT: the keys with the longest waits.

use dlock_core::Instant;
use dlock_core::command::{Refusal, hot};
use dlock_core::lock::queue::Queue;
use dlock_core::node::observed::hot::Figures;

use crate::ffi::call::{Call, Room};
use crate::ffi::context::{Ctx, now};
use crate::reply::{self, number, text};
use crate::state;

/// DLOCK.HOT.
pub fn hot(call: &Call<'_>) {
    let ctx = call.ctx;
    let mut room = Room::default();
    let most = match call.rest(1, &mut room).ok_or(Refusal::Arity).and_then(hot::parse) {
        Ok(most) => most,
        Err(Refusal::Arity) => return ctx.reply_wrong_arity(),
        Err(refusal) => return ctx.reply_error(refusal),
    };
    let listed = state::with(|state| {
        let now = now();
        let worst = state.node.hot(most, now);
        ctx.reply_array(worst.len());
        worst.into_iter().for_each(|(figures, queue)| hot_key(ctx, figures, queue, now));
    });
    if listed.is_none() {
        reply::busy(ctx);
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
