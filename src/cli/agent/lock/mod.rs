//! One caller's lock, from the first request to the last.
//!
//! A task for each pair of key and token, whichever connections ask: so a place is kept when a connection has
//! ended, and a token that asks again finds its lock. Its states: [`elsewhere`], where this agent knows nothing of it;
//! [`wanted`]; [`held`].

mod elsewhere;
mod held;
mod wanted;

use std::sync::Arc;
use std::time::Duration;

use dlock_client::Mode;
use dlock_client::operator::Caller;
use dlock_core::limits::MAX_TTL_CEILING;
use dlock_core::quorum::{Rules, Sound};
use dlock_core::{Fence, Millis, Owner};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::Agent;
use super::reply::Reply;
use super::room::Share;
use super::table::Name;
use super::tie::Tie;
use held::Held;
use wanted::Wanted;

/// A caller's lock.
#[derive(Clone)]
pub struct Lock {
    pub agent: Arc<Agent>,
    pub name: Arc<Name>,
    /// The user who asked first, whose share of the room it takes.
    pub owner: Owner,
}

/// The orders to a lock.
pub type Inbox = mpsc::UnboundedReceiver<Order>;

/// An order of a connection.
pub enum Order {
    Acquire(Box<Ask>),
    Release(Release),
    Extend {
        ttl: Millis,
        reply: ReplyTo,
    },
    Check {
        reply: ReplyTo,
    },
    /// The client had gone when it was told that it has the lock.
    Unheard {
        keep: Option<Millis>,
    },
    /// The agent ends. What a caller knows of is left to its lease.
    Leave,
}

/// A request to give the lock up.
pub struct Release {
    pub is_final: bool,
    /// The terms, if the lock is to be done and not free.
    pub done: Option<Done>,
    pub reply: ReplyTo,
}

/// The terms on which a lock is done.
pub struct Done {
    pub time: Duration,
    /// The caller's words about the outcome, and who it is.
    pub outcome: Vec<u8>,
}

/// A request for the lock. The connection drops the receiver of the reply when the client has gone.
pub struct Ask {
    pub terms: Terms,
    pub wait: Option<Millis>,
    pub keep: Option<Millis>,
    /// The connection with which the lock ends, if it does.
    pub tie: Option<Arc<Tie>>,
    pub reply: ReplyTo,
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
}

/// The terms of a lock.
#[derive(Clone)]
pub struct Terms {
    pub ttl: Millis,
    pub mode: Mode,
    /// The lock is taken though it is done, by a mark with at most this fence.
    pub again: Option<Fence>,
    /// True if the lock ends with a connection.
    pub ephemeral: bool,
    /// True if the lease is renewed until the connection ends.
    pub renew: bool,
    /// True if the connection ends with the lock.
    pub close: bool,
    pub caller: Caller,
}

enum State {
    Idle,
    Wanted(Box<Wanted>),
    Held(Box<Held>),
}

impl Lock {
    pub async fn run(self, mut inbox: Inbox) {
        let mut state = State::Idle;
        loop {
            state = match state {
                State::Idle => {
                    let table = &self.agent.table;
                    match table.next_or_leave(&self.name, self.owner, &mut inbox) {
                        Some(Order::Acquire(ask)) => self.want(*ask),
                        Some(other) => {
                            self.elsewhere(other).await;
                            State::Idle
                        }
                        None => return,
                    }
                }
                State::Wanted(wanted) => self.wanted(wanted, &mut inbox).await,
                State::Held(held) => self.held(held, &mut inbox).await,
            };
        }
    }
}

/// The length to ask the nodes for, so that a lease certainly lasts `ttl`, whatever their clocks do.
fn stretched(ttl: Millis) -> Duration {
    let least = SHORTEST.max(ttl.0);
    // The drift of the longer lease is longer, too: by a hundredth each time.
    let longer = |length| least + Sound.drift(Millis(length)).div_ceil(1_000);
    let length = (0..6).fold(least, |length, _| longer(length));
    Duration::from_millis(length.min(MAX_TTL_CEILING))
}

/// The longest lease for a caller where the nodes grant `most`.
pub fn shortened(most: Millis) -> Millis {
    Millis(most.0.saturating_sub(Sound.drift(most).div_ceil(1_000)))
}

/// The end of a time that begins now.
fn end_of(time: Millis) -> Instant {
    Instant::now() + Duration::from_millis(time.0)
}

fn answer(to: ReplyTo, reply: Reply) {
    // Whoever asked may have gone.
    let _ = to.sender.send(reply);
}

/// The library has no shorter leases, in milliseconds.
const SHORTEST: u64 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_of_the_nodes_lasts_as_long_as_the_caller_was_told() {
        for ttl in [10, 11, 99, 1_000, 30_000, 86_400_000, 4_000_000_000] {
            let asked = u64::try_from(stretched(Millis(ttl)).as_millis()).unwrap();
            let certain = asked * 1_000 - Sound.drift(Millis(asked));
            assert!(certain >= ttl * 1_000, "{ttl}: {asked}");
            assert!(asked <= ttl + ttl / 98 + 4, "{ttl}: {asked}");
            assert!(shortened(Millis(asked)).0 >= ttl, "{ttl}: {asked}");
        }
        for most in [1_000, 86_400_000, 3_600_001] {
            let longest = shortened(Millis(most)).0;
            assert!(stretched(Millis(longest)).as_millis() <= most.into(), "{most}: {longest}");
            assert!(stretched(Millis(longest + 1)).as_millis() > most.into(), "{most}: {longest}");
        }
        assert_eq!(stretched(Millis(MAX_TTL_CEILING)).as_millis(), u128::from(MAX_TTL_CEILING));
        assert!(stretched(Millis(1)).as_millis() >= 10);
    }
}
