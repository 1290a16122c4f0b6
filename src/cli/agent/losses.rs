//! Losses of locks: for those who subscribe to them, and for those who ask later.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dlock_client::{Key, Loss};
use dlock_core::Owner;
use serde_json::json;
use tokio::sync::mpsc;

use super::limits::{LOSS_LASTS, UNREAD_LOSSES};
use super::table::{Name, Tokens};
use super::tie::Tie;
use crate::say::bytes;

/// The subscribers, and the last losses.
pub struct Losses {
    subscribers: Mutex<HashMap<u64, Subscriber>>,
    /// Locks that were lost lately: where no majority answers, the agent knows at least that its own claim has ended.
    pub lately: Tokens,
}

struct Subscriber {
    owner: Owner,
    messages: mpsc::Sender<String>,
    tie: Arc<Tie>,
}

/// The channel of losses.
pub const CHANNEL: &[u8] = b"dlock:lost";

impl Default for Losses {
    fn default() -> Losses {
        Losses { subscribers: Mutex::default(), lately: Tokens::lasting(LOSS_LASTS) }
    }
}

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
        // Without room, whoever asks while no majority answers hears that.
        let _ = self.lately.add(name, owner);
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

    fn subscribers(&self) -> MutexGuard<'_, HashMap<u64, Subscriber>> {
        self.subscribers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Contains no token: another process of the same user may read it.
fn message(key: &Key, fence: u64, why: &str) -> String {
    bytes::about(key, json!({"fence": fence, "why": why})).to_string()
}

#[cfg(test)]
mod tests {
    use super::super::limits::TOKENS;
    use super::*;

    #[test]
    fn the_losses_of_one_user_push_out_none_of_another() {
        let (losses, name) = (Losses::default(), |n: u64| {
            Arc::new(Name { key: n.to_be_bytes().as_slice().into(), token: Box::default() })
        });
        let lose = |n, owner| losses.lately.add(&name(n), Owner(owner)).is_ok();
        assert!(lose(0, 1));
        let many = (1..=TOKENS).filter(|n| lose(*n, 2)).count();
        assert!(many as u64 >= TOKENS / 3, "{many}");
        assert!(losses.lately.contains(&name(0)) && lose(TOKENS + 1, 1));
    }
}
