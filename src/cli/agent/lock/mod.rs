//! The locks of the agent: a task for each pair of key and token, independent of connections. So a place outlasts its
//! connection, and a token that asks again finds its lock.
//!
//! [`order`]: one lock, and the orders of connections to it. [`wanted`]: from the first request to the grant.
//! [`held`]: from the grant to the end. [`handed`]: a lock of an earlier process.

mod handed;
mod held;
pub mod order;
mod wanted;

use std::collections::HashMap;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dlock_core::Owner;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use super::figures::Counted;
use super::handover::Entry;
use super::limits::{DONE_LASTS, LOCKS, WAITING};
use super::name::Name;
use super::reply::Reply;
use super::room::Room;
use held::Over;
use order::{Common, Inbox, Lock, Order};

/// The locks, held or wanted.
pub struct Locks {
    common: Arc<Common>,
    entries: Mutex<Entries>,
    /// Room in bytes.
    room: Arc<Room>,
}

#[derive(Default)]
struct Entries {
    locks: HashMap<Arc<Name>, mpsc::UnboundedSender<Order>>,
    /// True once the agent is shutting down.
    is_closed: bool,
}

impl Locks {
    pub fn new(common: &Arc<Common>) -> Arc<Locks> {
        let (common, entries) = (Arc::clone(common), Mutex::default());
        Arc::new(Locks { common, entries, room: Room::of(LOCKS) })
    }

    /// Sends an order to a lock. A connection sends one after the other, and each order keeps the share of its
    /// connection: so the limit of a user's connections bounds the user's orders.
    pub fn send(self: &Arc<Self>, owner: Owner, name: &Arc<Name>, order: Order) {
        let mut entries = self.entries();
        if entries.is_closed {
            return order.refuse(Reply::error(ENDS));
        }
        let lock = match entries.locks.get(name) {
            Some(lock) => lock.clone(),
            None => self.begin(&mut entries, owner, name, None),
        };
        // The lock's task leaves the table before it ends.
        let _ = lock.send(order);
    }

    /// Takes over the locks of an earlier process.
    pub fn take_over(self: &Arc<Self>, handed: Vec<Entry>) {
        let mut entries = self.entries();
        for entry in handed {
            let (owner, name) = (entry.owner, Arc::clone(&entry.name));
            if !entries.locks.contains_key(&name) {
                self.begin(&mut entries, owner, &name, Some(entry));
            }
        }
    }

    fn begin(
        self: &Arc<Self>,
        entries: &mut Entries,
        owner: Owner,
        name: &Arc<Name>,
        handed: Option<Entry>,
    ) -> mpsc::UnboundedSender<Order> {
        let (orders, inbox) = mpsc::unbounded_channel();
        entries.locks.insert(Arc::clone(name), orders.clone());
        let lock = Lock { common: Arc::clone(&self.common), name: Arc::clone(name), owner };
        tokio::spawn(Arc::clone(self).run(lock, inbox, handed));
        orders
    }

    /// One lock, from its first order to its last.
    async fn run(self: Arc<Self>, lock: Lock, mut inbox: Inbox, handed: Option<Entry>) {
        let _counted = Counted::new(&lock.common.figures.locks);
        let size = lock.name.room(lock.common.client.size());
        let mut room = handed.as_ref().and_then(|_| self.room.take(lock.owner, size));
        let (mut held, mut next) = match handed {
            Some(entry) => Box::pin(handed::confirmed(&lock, entry, &mut inbox)).await,
            None => (None, None),
        };
        // Set while the lock was just left done: a client may have lost the reply, and ask again.
        let mut done_until = None;
        loop {
            if let Some(held) = held.take() {
                next = match held::keep(&lock, held, next.take(), &mut inbox).await {
                    Over::Free(order) => order,
                    Over::Done(order) => {
                        done_until = Some(Instant::now() + DONE_LASTS);
                        order
                    }
                }
            }
            if let (None, Some(until)) = (&next, done_until) {
                next = timeout_at(until, inbox.recv()).await.unwrap_or_default();
            }
            match next.take().or_else(|| self.next_or_leave(&lock, &mut inbox)) {
                // Boxed, because a held lock does not need its memory.
                Some(Order::Acquire(ask)) => {
                    done_until = None;
                    room = room.or_else(|| self.room.take(lock.owner, size));
                    let waits = WAITING * (1 + lock.common.client.size() as u64);
                    let waits = room.as_ref().and_then(|_| self.room.take(lock.owner, waits));
                    let Some(_waits) = waits else {
                        ask.reply.answer(Reply::error(TOO_MANY));
                        continue;
                    };
                    match Box::pin(wanted::acquire(&lock, *ask, &mut inbox)).await {
                        Ok(granted) => held = Some(granted),
                        Err(order) => next = order,
                    }
                }
                Some(Order::Leave) => done_until = None,
                Some(order) => not_held(order, done_until.is_some()),
                None => return,
            }
        }
    }

    /// Returns the next order for a lock that is neither held nor wanted. Without one, the lock leaves the table.
    fn next_or_leave(&self, lock: &Lock, inbox: &mut Inbox) -> Option<Order> {
        let mut entries = self.entries();
        if let Ok(order) = inbox.try_recv() {
            return Some(order);
        }
        entries.locks.remove(&lock.name);
        None
    }

    /// Gives up locks that are wanted, and hands over those that are held. Refuses all later orders.
    pub fn close(&self) {
        let mut entries = self.entries();
        entries.is_closed = true;
        for lock in entries.locks.values() {
            let _ = lock.send(Order::Leave);
        }
    }

    /// The locks that were handed over.
    pub fn handed_over(&self) -> Vec<Entry> {
        mem::take(&mut *self.common.handed_over.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Number of locks, held or wanted.
    pub fn len(&self) -> usize {
        self.entries().locks.len()
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Answers an order for a lock that the token does not hold at this agent.
fn not_held(order: Order, was_left_done: bool) {
    match order {
        Order::Release { done, reply } => {
            let is_again = was_left_done && done.is_some();
            reply.answer(Reply::Int(is_again.into()));
        }
        Order::Extend { reply, .. } => reply.answer(Reply::Int(0)),
        Order::Check { reply } => reply.answer(Reply::Null),
        Order::Acquire(_) | Order::Leave => {}
    }
}

const TOO_MANY: &str = "TOOMANY locks: this user has as many locks and waiting requests at this agent as one user may; release some";
const ENDS: &str = "ERR the agent ends; ask again";

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use dlock_client::{Client, Mode};
    use dlock_core::Millis;
    use tokio::task::yield_now;
    use tokio::time::timeout;

    use super::super::limits::LOCK;
    use super::super::peer::Allow;
    use super::super::shared::Agent;
    use super::order::{Acquisition, ReplyTo, Terms};
    use super::*;

    #[tokio::test]
    async fn requests_that_wait_have_a_bound_in_bytes() {
        let client = Client::builder().nodes(["redis://127.0.0.1:1"]).connect_later().unwrap();
        let agent = Agent::new(client, Allow::default(), None, 1_000);
        let share = agent.connections.add(Owner(1)).unwrap();
        let wait = |number: u64| {
            let (reply, coming) = ReplyTo::channel(&share);
            let (ttl, meta) = (Millis(10_000), String::new());
            let terms = Terms { ttl, mode: Mode::Exclusive, again: None, renew: false, meta };
            let (wait, keep, bond) = (Some(Millis(0)), None, None);
            let name = Name { key: "job".into(), token: number.to_string().into_bytes().into() };
            let order = Order::Acquire(Box::new(Acquisition { terms, wait, keep, bond, reply }));
            agent.locks.send(share.owner(), &Arc::new(name), order);
            coming
        };
        let most = LOCKS / 2 / (LOCK + 2 * WAITING);
        let mut waits: Vec<_> = (0..most + 9).map(wait).collect();
        let are_refused = async {
            while agent.locks.len() as u64 > most {
                yield_now().await;
            }
        };
        timeout(Duration::from_secs(60), are_refused).await.unwrap();
        let mut refused = waits.iter_mut().filter_map(|coming| coming.try_recv().ok());
        assert!(refused.all(|reply| reply == Reply::error(TOO_MANY)));
        assert!(agent.locks.len() as u64 > most - 9);
    }
}
