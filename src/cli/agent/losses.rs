//! Losses of locks: for those who subscribe to them, and for those who ask later.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dlock_client::{Key, Loss};
use dlock_core::Owner;
use serde_json::json;
use tokio::sync::mpsc;

use super::limits::{LOSSES, UNREAD_LOSSES};
use super::table::Name;
use super::tie::Tie;
use crate::say::bytes;

/// The subscribers, and the last losses.
#[derive(Default)]
pub struct Losses {
    subscribers: Mutex<HashMap<u64, Subscriber>>,
    last: Mutex<Last>,
}

/// The last losses: where no majority answers, the agent knows at least that its own claim has ended.
#[derive(Default)]
struct Last {
    names: HashSet<Arc<Name>>,
    in_order: VecDeque<Arc<Name>>,
    /// The room that they take.
    units: u64,
}

struct Subscriber {
    owner: Owner,
    messages: mpsc::Sender<String>,
    tie: Arc<Tie>,
}

/// The channel of losses.
pub const CHANNEL: &[u8] = b"dlock:lost";

impl Losses {
    /// Subscribes a connection to the losses of its own user. The connection ends if too many are not read.
    pub fn subscribe(
        &self,
        connection: u64,
        owner: Owner,
        tie: &Arc<Tie>,
    ) -> mpsc::Receiver<String> {
        let (messages, coming) = mpsc::channel(UNREAD_LOSSES);
        self.subscribers().insert(connection, Subscriber { owner, messages, tie: Arc::clone(tie) });
        coming
    }

    pub fn unsubscribe(&self, connection: u64) {
        self.subscribers().remove(&connection);
    }

    /// Tells the subscribers of this user, and remembers the loss.
    pub fn tell(&self, name: &Arc<Name>, owner: Owner, loss: &Loss) {
        self.remember(name);
        let subscribers = self.subscribers();
        if subscribers.is_empty() {
            return;
        }
        let message = message(&loss.key, loss.fence, loss.why.name());
        for subscriber in subscribers.values().filter(|subscriber| subscriber.owner == owner) {
            if subscriber.messages.try_send(message.clone()).is_err() {
                subscriber.tie.lose();
            }
        }
    }

    fn remember(&self, name: &Arc<Name>) {
        let mut last = self.last();
        if last.names.insert(Arc::clone(name)) {
            last.in_order.push_back(Arc::clone(name));
            last.units += name.units();
        }
        while last.units > LOSSES
            && let Some(oldest) = last.in_order.pop_front()
        {
            last.units -= oldest.units();
            last.names.remove(&oldest);
        }
    }

    /// True if this lock was lost lately.
    pub fn is_known(&self, name: &Name) -> bool {
        self.last().names.contains(name)
    }

    /// Forgets the loss of a lock that is held again.
    pub fn forget(&self, name: &Name) {
        let mut last = self.last();
        if last.names.remove(name) {
            last.units -= name.units();
            last.in_order.retain(|other| **other != *name);
        }
    }

    fn last(&self) -> MutexGuard<'_, Last> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn subscribers(&self) -> MutexGuard<'_, HashMap<u64, Subscriber>> {
        self.subscribers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Contains no token: another process of the same user may read it.
fn message(key: &Key, fence: u64, why: &str) -> String {
    bytes::about(key, json!({"fence": fence, "why": why})).to_string()
}
