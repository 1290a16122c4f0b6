//! A lock that an earlier process of the agent has handed over. It is a hint until a majority of the nodes has
//! extended the lease by its fence: only then is an order answered, and the lock is held.

use dlock_client::{Error, Lease, Loss, LossReason, Mode};
use dlock_core::Millis;
use tokio::time::{Instant, sleep_until};

use super::super::handover::Entry;
use super::super::lease::stretched;
use super::super::refusal;
use super::held::Held;
use super::order::{Inbox, Lock, Order};

/// Waits for an order and confirms the lock. Returns the lock if it is held, and the order.
pub async fn confirmed(
    lock: &Lock,
    entry: Entry,
    inbox: &mut Inbox,
) -> (Option<Box<Held>>, Option<Order>) {
    loop {
        let order = tokio::select! {
            biased;
            order = inbox.recv() => order,
            () = sleep_until(Instant::now() + entry.left()) => {
                lost(lock, &entry, LossReason::Expired);
                return (None, None);
            }
        };
        match order {
            None => return (None, None),
            Some(Order::Leave) => {
                lock.hand_over(entry);
                return (None, None);
            }
            Some(order) => match confirm(lock, &entry).await {
                Ok(held) => return (Some(held), Some(order)),
                Err(Error::Lost(loss)) => {
                    lost(lock, &entry, loss.why);
                    return (None, Some(order));
                }
                Err(error) => order.refuse(refusal::reply(&error)),
            },
        }
    }
}

async fn confirm(lock: &Lock, entry: &Entry) -> Result<Box<Held>, Error> {
    let left = entry.left();
    let ttl = Millis(u64::try_from(left.as_millis()).unwrap_or(u64::MAX));
    let mode = if entry.is_shared { Mode::Shared } else { Mode::Exclusive };
    let lease = Lease {
        key: lock.name.key.clone(),
        token: entry.token,
        fence: entry.fence,
        valid_for: stretched(ttl),
    };
    let guard = lock.common.client.take_over(lease, mode).await?;
    Ok(Held::new(guard, mode, &lock.common.figures))
}

fn lost(lock: &Lock, entry: &Entry, why: LossReason) {
    lock.tell_loss(&Loss { key: lock.name.key.clone(), fence: entry.fence, why });
}
