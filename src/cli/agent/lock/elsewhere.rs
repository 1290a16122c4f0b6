//! A lock of which this agent knows nothing: the caller may hold it by another agent, or by this one before a restart.
//! A majority of the nodes shows that.

use std::time::Duration;

use dlock_client::Error;
use dlock_client::operator::Attempt;
use dlock_core::{Millis, Reason};

use super::super::refusal;
use super::super::reply::Reply;
use super::{Done, Lock, Order, Release, answer, stretched};

/// The reply; `None`: the caller holds nothing.
type Found = Result<Option<Reply>, Error>;

impl Lock {
    /// Carries an order out on the lock that the caller may hold elsewhere.
    pub(super) async fn elsewhere(&self, order: Order) {
        let ttl = if let Order::Extend { ttl, .. } = order { ttl } else { Millis(0) };
        let (reply, found, nothing) = match order {
            Order::Release(Release { is_final, done, reply }) => {
                if is_final && self.agent.finals.add(&self.name, self.owner).is_err() {
                    return answer(reply, Reply::error(Reason::TooManyFinals));
                }
                match done {
                    Some(done) => {
                        let found = self.finished_elsewhere(&done).await;
                        (reply, found, Reply::Int(self.agent.finished.contains(&self.name).into()))
                    }
                    None => (reply, self.released_elsewhere().await, Reply::Int(0)),
                }
            }
            Order::Extend { ttl, reply } => {
                let found = self.extended_elsewhere(ttl, |_| Reply::Int(1)).await;
                (reply, found, Reply::Int(0))
            }
            Order::Check { reply } => (reply, self.held_elsewhere().await, Reply::Null),
            Order::Acquire(_) | Order::Unheard { .. } | Order::Leave => return,
        };
        let said = match found {
            Ok(found) => found.unwrap_or(nothing),
            // Where no majority answers, a lock that was lost here is lost.
            Err(Error::NoQuorum { .. }) if self.agent.losses.lately.contains(&self.name) => nothing,
            Err(error) => refusal::of_lease(&error, ttl),
        };
        answer(reply, said);
    }

    async fn attempt(&self) -> Result<Option<Attempt>, Error> {
        let found = self.agent.client.attempt_of(&self.name.key, &self.name.token).await?;
        if found.is_some() {
            // The caller has taken it again, by another agent.
            self.agent.losses.lately.forget(&self.name);
        }
        Ok(found)
    }

    async fn released_elsewhere(&self) -> Found {
        let Some(Attempt { name, .. }) = self.attempt().await? else { return Ok(None) };
        let released = self.agent.client.release_attempt(&self.name.key, &name).await?;
        Ok(Some(Reply::Int(released.into())))
    }

    async fn finished_elsewhere(&self, done: &Done) -> Found {
        let Some(attempt) = self.attempt().await? else { return Ok(None) };
        if attempt.fence.is_none() {
            return unsettled();
        }
        let terms = (done.time, &*done.outcome);
        let done = self.agent.client.finish_attempt(&self.name.key, &attempt, terms).await?;
        if done {
            self.note_finished();
        }
        Ok(Some(Reply::Int(done.into())))
    }

    /// Remembers that the token has left the lock done: a client whose answer was lost asks again.
    pub(super) fn note_finished(&self) {
        // Without room the second answer is 0.
        let _ = self.agent.finished.add(&self.name, self.owner);
    }

    async fn held_elsewhere(&self) -> Found {
        let Some(Attempt { name, fence }) = self.attempt().await? else { return Ok(None) };
        let Some(fence) = fence else { return unsettled() };
        let holds = self.agent.client.check_attempt(&self.name.key, &name, Some(fence.0)).await?;
        Ok(holds.then(|| Reply::number(fence.0)))
    }

    /// Extends the lock that the caller holds by another agent; `reply` makes a reply of its fence.
    pub(super) async fn extended_elsewhere(&self, ttl: Millis, reply: fn(u64) -> Reply) -> Found {
        let Some(Attempt { name, fence }) = self.attempt().await? else { return Ok(None) };
        let Some(fence) = fence else { return unsettled() };
        let (client, key) = (&self.agent.client, &self.name.key);
        match client.extend_attempt(key, &name, fence, stretched(ttl)).await {
            Ok(Duration::ZERO) => unsettled(),
            Ok(_) => Ok(Some(reply(fence.0))),
            Err(Error::Lost(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// The agent that has taken the lock may still give it up.
fn unsettled() -> Found {
    Ok(Some(Reply::error(UNSETTLED)))
}

const UNSETTLED: &str =
    "TRYAGAIN the agent that has taken this lock may still give it up; ask that agent, or again";
