//! Answers with more to say than a number, and what they are made of.

use dlock_core::command::{Command, Refusal};
use dlock_core::{Answer, ClientId, Serves};

use crate::ffi::call::Call;
use crate::ffi::context::{Ctx, Name, unix_micros};
use crate::state::{self, State};

/// What a request that waited is told.
pub fn answer(ctx: Ctx<'_>, answer: Answer, key: &[u8]) {
    match answer {
        Answer::Granted(fence) => ctx.reply_int(fence.0),
        Answer::Denied => ctx.reply_null(),
        // An error, because whatever else it were, somebody would take it for the lock.
        Answer::Turn(fence) => ctx.reply_error(&format!(
            "TURN {} is the largest fence here so far; the lock is granted when its holders leave",
            fence.0
        )),
        Answer::Removed => {
            // In a cluster the key may be on its way to another node: this word makes cluster
            // clients ask again, and they are redirected then.
            if ctx.flags().is_cluster() && ctx.serves(&Name::new(key)) == Serves::Moved {
                ctx.reply_error("TRYAGAIN this node does not serve the key any more; ask again");
            } else {
                ctx.reply_error("UNBLOCKED the key was removed while the request waited for it");
            }
        }
        Answer::Replaced => ctx.reply_error(
            "ERR this token asked again on another connection, which waits in this one's place",
        ),
        Answer::Demoted => {
            ctx.reply_error("UNBLOCKED this node became a replica, or loads another data set")
        }
        Answer::Exhausted => ctx.reply_error(&Refusal::Exhausted.to_string()),
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
        let about = About::of(state);
        ctx.reply_map(20);
        text(ctx, "version", env!("CARGO_PKG_VERSION"));
        text(ctx, "node-id", &about.node_id);
        number(ctx, "boot", about.boot);
        text(ctx, "grants", about.grants);
        number(ctx, "refusing-ms", about.refusing_ms);
        number(ctx, "fence", state.node.fence().0);
        number(ctx, "fence-reserved", about.fence_reserved);
        number(ctx, "fence-ahead-ms", about.fence_ahead_ms);
        number(ctx, "lease-bound-ms", about.lease_bound_ms);
        text(ctx, "durable", about.durable);
        text(ctx, "state-file", &about.state_file);
        text(ctx, "state-file-error", &about.state_file_error);
        number(ctx, "quarantine-ms", about.quarantine_ms);
        text(ctx, "quarantine-reason", &about.quarantine_reason);
        number(ctx, "leases", state.store.index.leases() as u64);
        number(ctx, "waiters", state.node.waiters() as u64);
        number(ctx, "places", state.node.places() as u64);
        number(ctx, "places-refused", state.node.places_refused());
        number(ctx, "leases-away", state.node.leases_away() as u64);
        text(ctx, "role", if ctx.flags().is_replica() { "replica" } else { "primary" });
    });
    if done.is_none() {
        busy(ctx);
    }
}

/// Whether this node grants, and what it has promised: for NODE and INFO alike.
pub struct About {
    pub node_id: String,
    pub boot: u64,
    /// `yes`, or why not.
    pub grants: &'static str,
    pub refusing_ms: u64,
    pub fence_reserved: u64,
    /// How far the largest fence is ahead of the wall clock.
    pub fence_ahead_ms: u64,
    pub lease_bound_ms: u64,
    pub durable: &'static str,
    pub state_file: String,
    pub state_file_error: String,
    pub quarantine_ms: u64,
    pub quarantine_reason: String,
}

impl About {
    pub fn of(state: &mut State) -> About {
        let time = state.time();
        let refusing = state.refusing(time);
        let (node, ledger) = (&state.node, &state.store.promises.ledger);
        let promise = node.promise(time.unix);
        let quarantine = node.in_quarantine().filter(|_| node.is_in_quarantine(time.now));
        About {
            node_id: format!("{:032x}", ledger.node_id()),
            boot: ledger.boot(),
            grants: refusing.map_or("yes", |(why, _)| why.name()),
            refusing_ms: refusing.map_or(0, |(_, since)| time.now.since(since) / 1000),
            fence_reserved: ledger.path().map_or(0, |_| promise.fence.0),
            fence_ahead_ms: node.fence().0.saturating_sub(unix_micros()) / 1000,
            lease_bound_ms: promise.bound.0,
            durable: match (ledger.path(), ledger.failure()) {
                (None, _) => "no",
                (Some(_), None) => "yes",
                (Some(_), Some(_)) => "failing",
            },
            state_file: ledger.path().map_or(String::new(), |path| path.display().to_string()),
            state_file_error: ledger.failure().unwrap_or_default().to_owned(),
            quarantine_ms: quarantine.map_or(0, |q| q.until.left(time.now).0),
            quarantine_reason: quarantine.map_or(String::new(), |q| q.why.to_string()),
        }
    }
}

/// Another module listens to keyspace events, and calls back from there.
pub fn busy(ctx: Ctx<'_>) {
    ctx.reply_error(&Refusal::Busy.to_string());
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

/// A field of a map: the connection's id, as CLIENT LIST and CLIENT KILL know it; null once it is closed.
pub fn client(ctx: Ctx<'_>, client: ClientId) {
    ctx.reply_text("client");
    optional(ctx, ctx.is_connected(client).then_some(client.0));
}
