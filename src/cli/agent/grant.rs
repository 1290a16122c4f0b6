//! A grant whose reply was not written yet.

use std::sync::Arc;

use dlock_core::Owner;
use tokio::sync::oneshot;

use super::lock::Locks;
use super::lock::order::Order;
use super::reply::Reply;
use super::tokens::Name;

/// A grant of which the client has not heard. Dropping it says so to the lock.
pub struct Grant {
    pub locks: Arc<Locks>,
    pub owner: Owner,
    pub name: Arc<Name>,
    pub connection: u64,
    /// True if the request had KEEP.
    pub keeps: bool,
    pub is_heard: bool,
}

/// A reply that is awaited.
pub struct Coming {
    pub coming: oneshot::Receiver<Reply>,
    /// The grant that it may be.
    pub grant: Option<Grant>,
}

impl Coming {
    /// The reply, and the grant if it is one. `None`: the agent ends.
    pub async fn reply(mut self) -> (Option<Reply>, Option<Grant>) {
        let reply = (&mut self.coming).await.ok();
        let grant = self.grant.take();
        match reply {
            Some(Reply::Int(_)) => (reply, grant),
            reply => {
                grant.into_iter().for_each(Grant::heard);
                (reply, None)
            }
        }
    }
}

impl Drop for Coming {
    /// The connection may end just when the lock is granted.
    fn drop(&mut self) {
        self.coming.close();
        if !matches!(self.coming.try_recv(), Ok(Reply::Int(_))) {
            self.grant.take().into_iter().for_each(Grant::heard);
        }
    }
}

impl Grant {
    /// Notes that the client has heard of it, as far as can be known; or that it is none.
    pub fn heard(mut self) {
        self.is_heard = true;
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        if !self.is_heard {
            let order = Order::Unheard { connection: self.connection, keeps: self.keeps };
            let _ = self.locks.send(self.owner, &self.name, order);
        }
    }
}
