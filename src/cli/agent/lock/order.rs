//! One caller's lock, and the orders of connections to it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use dlock_client::{Client, Loss, Mode};
use dlock_core::{Fence, Millis, Owner};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::super::figures::Figures;
use super::super::handover::Entry;
use super::super::losses::Losses;
use super::super::name::Name;
use super::super::reply::Reply;
use super::super::room::Share;
use super::super::tie::Bond;

/// A caller's lock.
pub struct Lock {
    pub common: Arc<Common>,
    pub name: Arc<Name>,
    /// The user of the first request: the lock takes room of this user's share.
    pub owner: Owner,
}

/// The state that all locks share.
pub struct Common {
    pub client: Client,
    pub figures: Arc<Figures>,
    pub losses: Losses,
    /// Locks to hand over to the next process.
    pub handed_over: Mutex<Vec<Entry>>,
}

/// The orders to a lock.
pub type Inbox = mpsc::UnboundedReceiver<Order>;

/// An order of a connection.
pub enum Order {
    Acquire(Box<Acquisition>),
    Release {
        /// The terms, if the lock is left done instead of free.
        done: Option<Done>,
        reply: ReplyTo,
    },
    Extend {
        ttl: Millis,
        reply: ReplyTo,
    },
    Check {
        reply: ReplyTo,
    },
    /// The agent is shutting down.
    Leave,
}

/// A request for the lock.
pub struct Acquisition {
    pub terms: Terms,
    pub wait: Option<Millis>,
    pub keep: Option<Millis>,
    /// Set if the lock ends with the connection.
    pub bond: Option<Bond>,
    pub reply: ReplyTo,
}

/// The terms of a lock.
#[derive(Clone)]
pub struct Terms {
    pub ttl: Millis,
    pub mode: Mode,
    /// The lock is taken even if it is done, over a completion record up to this fence.
    pub again: Option<Fence>,
    /// True if the agent renews the lease.
    pub renew: bool,
    /// A text about the holder.
    pub meta: String,
}

/// The terms of a completion record.
pub struct Done {
    pub time: Duration,
    /// The client's process and user, and its text about the outcome.
    pub outcome: Vec<u8>,
}

/// The way back to a connection, with the connection's share until it is answered.
pub struct ReplyTo {
    sender: oneshot::Sender<Reply>,
    _share: Arc<Share>,
}

impl ReplyTo {
    pub fn channel(share: &Arc<Share>) -> (ReplyTo, oneshot::Receiver<Reply>) {
        let (sender, coming) = oneshot::channel();
        (ReplyTo { sender, _share: Arc::clone(share) }, coming)
    }

    /// Answers, unless the client has gone.
    pub fn answer(self, reply: Reply) {
        let _ = self.sender.send(reply);
    }

    /// True if the client has gone.
    pub fn is_gone(&self) -> bool {
        self.sender.is_closed()
    }

    /// Resolves when the client has gone.
    pub async fn gone(&mut self) {
        self.sender.closed().await;
    }
}

impl Order {
    /// Answers an order without carrying it out.
    pub fn refuse(self, why: Reply) {
        let reply = match self {
            Order::Acquire(ask) => ask.reply,
            Order::Release { reply, .. } | Order::Extend { reply, .. } | Order::Check { reply } => {
                reply
            }
            Order::Leave => return,
        };
        reply.answer(why);
    }
}

impl Lock {
    /// Counts a loss, and tells subscribers.
    pub fn tell_loss(&self, loss: &Loss) {
        self.common.figures.count_loss(loss.why.name());
        self.common.losses.tell(self.owner, loss);
    }

    pub fn hand_over(&self, entry: Entry) {
        self.common.handed_over.lock().unwrap_or_else(PoisonError::into_inner).push(entry);
    }
}

/// The end of a time that begins now.
pub fn end_of(time: Millis) -> Instant {
    Instant::now() + Duration::from_millis(time.0)
}
