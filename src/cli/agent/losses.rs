//! Losses of locks, for those who subscribe to them.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use dlock_client::{Key, Loss};
use dlock_core::Owner;
use serde_json::json;
use tokio::sync::mpsc;

use super::limits::UNREAD_LOSSES;
use crate::say::bytes;

/// The subscribers.
#[derive(Default)]
pub struct Losses {
    subscribers: Mutex<HashMap<u64, Subscriber>>,
}

struct Subscriber {
    owner: Owner,
    messages: mpsc::Sender<String>,
}

/// The channel of losses.
pub const CHANNEL: &[u8] = b"dlock:lost";

impl Losses {
    /// Subscribes a connection to the losses of its own user. The receiver ends if too many are not read.
    pub fn subscribe(&self, connection: u64, owner: Owner) -> mpsc::Receiver<String> {
        let (messages, coming) = mpsc::channel(UNREAD_LOSSES);
        self.subscribers().insert(connection, Subscriber { owner, messages });
        coming
    }

    pub fn unsubscribe(&self, connection: u64) {
        self.subscribers().remove(&connection);
    }

    /// Tells the subscribers of this user.
    pub fn tell(&self, owner: Owner, loss: &Loss) {
        let mut subscribers = self.subscribers();
        if subscribers.is_empty() {
            return;
        }
        let message = message(&loss.key, loss.fence, loss.why.name());
        subscribers.retain(|_, subscriber| {
            subscriber.owner != owner || subscriber.messages.try_send(message.clone()).is_ok()
        });
    }

    fn subscribers(&self) -> MutexGuard<'_, HashMap<u64, Subscriber>> {
        self.subscribers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Contains no token: another process of the same user may read it.
fn message(key: &Key, fence: u64, why: &str) -> String {
    bytes::about(key, json!({"fence": fence, "why": why})).to_string()
}
