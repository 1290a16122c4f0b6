//! Replies with more than a number, and their parts.

use dlock_core::command::{Command, Refusal};
use dlock_core::{ClientId, WaitOutcome};

use crate::ffi::call::Call;
use crate::ffi::context::Ctx;
use crate::node_figures::{self, Figure};
use crate::state;

/// Sends the reply to a request that waited.
pub fn answer(ctx: Ctx<'_>, answer: WaitOutcome) {
    match answer {
        WaitOutcome::Granted(fence) => ctx.reply_int(fence.0),
        WaitOutcome::Denied => ctx.reply_null(),
        // An error, because a client could take any other reply for the lock.
        WaitOutcome::Turn(fence) => ctx.reply_error(format_args!(
            "TURN {} is the largest fence of the key so far; this request is next",
            fence.0
        )),
        // In a cluster the key may be moving to another node: after this error cluster clients ask again, and are
        // redirected.
        WaitOutcome::Removed if ctx.flags().is_cluster() => {
            ctx.reply_error("TRYAGAIN the key was removed or moved while the request waited; ask again")
        }
        WaitOutcome::Removed => {
            ctx.reply_error("UNBLOCKED the key was removed while the request waited; ask again")
        }
        WaitOutcome::Replaced => ctx.reply_error(
            "REPLACED the same token asked again, and its newest request counts; use one token for each acquisition",
        ),
        WaitOutcome::Demoted => {
            ctx.reply_error("UNBLOCKED this server became a replica, or loads another data set; ask again")
        }
        WaitOutcome::Refused(reason) => ctx.reply_error(reason),
    }
}

/// DLOCK.NODE.
pub fn node(call: &Call<'_>) {
    let ctx = call.ctx;
    if call.len() != 1 {
        return ctx.reply_wrong_arity();
    }
    let done = state::with(|state| {
        if state.store.is_unsettled() {
            state.finish_taken();
            state.begin_if_loaded(ctx);
        }
        let figures = node_figures::figures(state, ctx);
        ctx.reply_map(figures.len() + 1);
        for (name, figure) in figures {
            match figure {
                Figure::Number(value) => number(ctx, name, value),
                Figure::Text(value) => text(ctx, name, value),
            }
        }
        text(ctx, "role", if ctx.flags().is_replica() { "replica" } else { "primary" });
    });
    if done.is_none() {
        busy(ctx);
    }
}

/// Refuses a command from another module's keyspace event, during a command of dlock.
pub fn busy(ctx: Ctx<'_>) {
    ctx.reply_error(Refusal::Busy);
}

/// DLOCK.HELP.
pub fn help(call: &Call<'_>) {
    let ctx = call.ctx;
    if call.len() != 1 {
        return ctx.reply_wrong_arity();
    }
    ctx.reply_array(Command::ALL.len());
    for doc in Command::ALL.iter().map(|command| command.doc()) {
        ctx.reply_status(&format!("{doc} -- {}", doc.summary));
    }
}

/// A field of a map: text.
pub fn text(ctx: Ctx<'_>, name: &str, value: impl AsRef<[u8]>) {
    ctx.reply_text(name);
    ctx.reply_text(value);
}

/// A field of a map: a number.
pub fn number(ctx: Ctx<'_>, name: &str, value: u64) {
    ctx.reply_text(name);
    ctx.reply_int(value);
}

/// A number, or null.
pub fn optional(ctx: Ctx<'_>, value: Option<u64>) {
    match value {
        Some(value) => ctx.reply_int(value),
        None => ctx.reply_null(),
    }
}

/// A field of a map: the connection's id, as in CLIENT LIST and CLIENT KILL; null once it is closed.
pub fn client(ctx: Ctx<'_>, client: ClientId) {
    ctx.reply_text("client");
    optional(ctx, ctx.is_connected(client).then_some(client.0));
}
