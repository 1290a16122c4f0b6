//! DLOCK.INSPECT and DLOCK.TOKENS: the holders and the waiters of a lock.
//!
//! The reply lists the first ones, and counts all: no reply is large.

use dlock_core::limits::INSPECT_LISTED;
use dlock_core::lock::Holders;
use dlock_core::lock::queue::{Queue, Waiter};
use dlock_core::node::who::{id, id_of};
use dlock_core::{ClientId, Found, Grant, Host, Key, Mode, Node, Reason, Time};

use crate::ffi::context::Ctx;
use crate::keyspace::Keyspace;
use crate::reply::{client, number, optional, text};

/// The way to name holders and waiters.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Named {
    /// An id that does not reveal the token: a client that has the token can release the lock.
    ById,
    /// The id and the token.
    ByToken,
}

/// Sends the reply.
pub fn reply(
    ctx: Ctx<'_>,
    node: &Node,
    keyspace: &mut Keyspace<'_, '_>,
    key: Key<'_>,
    time: Time,
    named: Named,
) -> Result<(), Reason> {
    let empty = Queue::default();
    let queue = node.waiting.queue(key).unwrap_or(&empty);
    let page = Page { ctx, time, named, node, queue };
    match keyspace.find(key) {
        Found::WrongType => return Err(Reason::WrongType),
        Found::Foreign { left } => {
            ctx.reply_map(7);
            text(ctx, "mode", "foreign");
            ctx.reply_text("ttl-ms");
            optional(ctx, left.map(|left| left.0));
            page.people(0, 0, [].into_iter());
        }
        Found::Done { done, left } => {
            ctx.reply_map(11);
            text(ctx, "mode", "done");
            ctx.reply_text("ttl-ms");
            optional(ctx, left.map(|left| left.0));
            text(ctx, "id", id_of(done.by).as_bytes());
            number(ctx, "fence", done.fence.0);
            number(ctx, "done-ms", (time.unix / 1000).saturating_sub(done.since));
            text(ctx, "meta", done.meta);
            page.people(0, 0, [].into_iter());
        }
        Found::Free | Found::Over { .. } => match node.shut_until(key, time.now) {
            Some(end) => {
                ctx.reply_map(7);
                text(ctx, "mode", "evicted");
                number(ctx, "ttl-ms", end.left(time.now).0);
                page.people(0, 0, [].into_iter());
            }
            None => page.lock(Mode::Exclusive, 0, [].into_iter()),
        },
        Found::Held(Holders::One(grant)) => {
            let holding = usize::from(!grant.lease.end.is_over(time.now));
            page.lock(Mode::Exclusive, holding, [grant].into_iter());
        }
        Found::Held(Holders::Many(crowd)) => {
            page.lock(crowd.mode(), crowd.holding(time.now), crowd.grants());
        }
    }
    Ok(())
}

struct Page<'p> {
    ctx: Ctx<'p>,
    time: Time,
    named: Named,
    node: &'p Node,
    queue: &'p Queue,
}

impl Page<'_> {
    fn lock<'g>(&self, mode: Mode, holding: usize, grants: impl Iterator<Item = Grant<'g>>) {
        if holding == 0 && self.queue.is_empty() {
            return self.ctx.reply_null();
        }
        self.ctx.reply_map(6);
        text(self.ctx, "mode", mode.name());
        self.people(u64::from(mode.permits()), holding, grants);
    }

    /// Lists the grants and the waiters; the leases of `holding` grants are not over.
    fn people<'g>(&self, limit: u64, holding: usize, grants: impl Iterator<Item = Grant<'g>>) {
        let Page { ctx, time, queue, .. } = *self;
        number(ctx, "limit", limit);
        number(ctx, "holding", holding as u64);
        ctx.reply_text("holders");
        let listed = holding.min(INSPECT_LISTED);
        ctx.reply_array(listed);
        let holds = |grant: &Grant<'_>| !grant.lease.end.is_over(time.now);
        grants.filter(holds).take(listed).for_each(|grant| self.holder(&grant));
        number(ctx, "waiting", queue.len() as u64);
        ctx.reply_text("waiters");
        ctx.reply_array(queue.len().min(INSPECT_LISTED));
        queue.iter().take(INSPECT_LISTED).for_each(|waiter| self.waiter(waiter));
    }

    fn holder(&self, grant: &Grant<'_>) {
        let Page { ctx, time, .. } = *self;
        self.begin(7, grant.token);
        number(ctx, "fence", grant.fence.0);
        number(ctx, "ttl-ms", grant.lease.end.left(time.now).0);
        number(ctx, "held-ms", time.now.since(grant.lease.since) / 1000);
        client(ctx, grant.client);
        text(ctx, "meta", grant.meta);
        number(ctx, "ephemeral", u64::from(grant.ephemeral));
        number(ctx, "away", u64::from(grant.client == ClientId::AWAY));
    }

    fn waiter(&self, waiter: &Waiter) {
        let Page { ctx, time, .. } = *self;
        self.begin(6, &waiter.token);
        text(ctx, "mode", waiter.asks.mode.name());
        number(ctx, "waited-ms", time.now.since(waiter.since) / 1000);
        ctx.reply_text("left-ms");
        optional(ctx, self.node.waiting.left(waiter, time.now).map(|left| left.0));
        client(ctx, waiter.asks.client);
        text(ctx, "meta", &waiter.asks.meta);
        number(ctx, "away", u64::from(!waiter.is_present()));
    }

    /// Begins the map of a holder or waiter, which has this many other fields.
    fn begin(&self, fields: usize, token: &[u8]) {
        let with_token = self.named == Named::ByToken;
        self.ctx.reply_map(fields + 1 + usize::from(with_token));
        text(self.ctx, "id", id(token));
        if with_token {
            text(self.ctx, "token", token);
        }
    }
}
