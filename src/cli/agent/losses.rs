//! Losses of locks, for subscribers.
//!
//! Each user has one log of messages, which all of its subscribers read at their own pace: a loss is written once
//! for all. The log has a bound in bytes, and a subscriber that falls behind is cut off.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use dlock_client::{Key, Loss};
use dlock_core::Owner;
use serde_json::json;
use tokio::sync::watch;

use super::limits::LOSSES;
use crate::say::bytes;

/// The users that have subscribers.
#[derive(Default)]
pub struct Losses(Mutex<BTreeMap<Owner, watch::Sender<Log>>>);

/// The last messages to one user's subscribers.
#[derive(Default)]
struct Log {
    messages: VecDeque<Arc<str>>,
    bytes: usize,
    /// Number of messages that were dropped before these.
    dropped: usize,
}

/// A subscriber's place in the log.
pub struct Subscription {
    log: watch::Receiver<Log>,
    next: usize,
}

/// The subscriber has fallen behind.
pub struct Behind;

/// The channel of losses.
pub const CHANNEL: &[u8] = b"dlock:lost";

impl Losses {
    /// Subscribes to the losses of a user, from now on.
    pub fn subscribe(&self, owner: Owner) -> Subscription {
        let mut logs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let log = logs.entry(owner).or_default().subscribe();
        let next = log.borrow().end();
        Subscription { log, next }
    }

    /// Tells the subscribers of this user.
    pub fn tell(&self, owner: Owner, loss: &Loss) {
        let mut logs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(log) = logs.get(&owner) else { return };
        if log.receiver_count() == 0 {
            logs.remove(&owner);
            return;
        }
        let message = message(&loss.key, loss.fence, loss.why.name());
        log.send_modify(|log| log.add(message));
    }
}

impl Log {
    fn end(&self) -> usize {
        self.dropped + self.messages.len()
    }

    fn add(&mut self, message: Arc<str>) {
        self.bytes += message.len();
        self.messages.push_back(message);
        while self.bytes > LOSSES
            && let Some(oldest) = self.messages.pop_front()
        {
            self.bytes -= oldest.len();
            self.dropped += 1;
        }
    }
}

impl Subscription {
    /// The next message.
    pub async fn next(&mut self) -> Result<Arc<str>, Behind> {
        let next = self.next;
        // Subscribers keep the sender.
        let log = self.log.wait_for(|log| log.end() > next).await.map_err(|_| Behind)?;
        let at = next.checked_sub(log.dropped).ok_or(Behind)?;
        let message = log.messages.get(at).map(Arc::clone).ok_or(Behind)?;
        self.next += 1;
        Ok(message)
    }
}

/// A message without the token: another process of the same user may read it.
fn message(key: &Key, fence: u64, why: &str) -> Arc<str> {
    bytes::about(key, json!({"fence": fence, "why": why})).to_string().into()
}
