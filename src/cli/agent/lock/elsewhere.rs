//! A lock of which this agent knows nothing: the caller may hold it by another agent, or by this one before a restart.
//! A majority of the nodes shows that.

use std::time::Duration;

use dlock_client::Error;
use dlock_client::operator::Attempt;
use dlock_core::{Fence, Millis, Reason};

use super::super::refusal;
use super::super::reply::Reply;
use super::held::OTHER_END;
use super::{Done, Lock, Order, Release, Terms, answer, stretched};

/// The reply; `None`: the caller holds nothing.
type Found = Result<Option<Reply>, Error>;

impl Lock {
    /// Carries an order out on the lock that the caller may hold elsewhere.
    pub(super) async fn elsewhere(&self, order: Order) {
        let ttl = if let Order::Extend { ttl, .. } = order { ttl } else { Millis(0) };
        let (reply, found, nothing) = match order {
            Order::Release(Release { is_final, done, reply }) => {
                if is_final {
                    // Without room for it, a late ACQUIRE costs a lease at most.
                    let _ = self.agent.finals.add(&self.name, self.owner);
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
                let found = self.extended_elsewhere(ttl).await;
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
        let Some(Attempt { name, fence, .. }) = self.attempt().await? else { return Ok(None) };
        let Some(fence) = fence else { return unsettled() };
        let holds = self.agent.client.check_attempt(&self.name.key, &name, Some(fence.0)).await?;
        Ok(holds.then(|| Reply::number(fence.0)))
    }

    async fn extended_elsewhere(&self, ttl: Millis) -> Found {
        let Some(Attempt { name, fence, .. }) = self.attempt().await? else { return Ok(None) };
        let Some(fence) = fence else { return unsettled() };
        match self.extended(&name, fence, ttl).await? {
            None => Ok(None),
            Some(Duration::ZERO) => unsettled(),
            Some(_) => Ok(Some(Reply::Int(1))),
        }
    }

    /// Extends an attempt. Returns the time for which the lock is valid; `None`: it is not held.
    async fn extended(
        &self,
        name: &[u8],
        fence: Fence,
        ttl: Millis,
    ) -> Result<Option<Duration>, Error> {
        let client = &self.agent.client;
        match client.extend_attempt(&self.name.key, name, fence, stretched(ttl)).await {
            Ok(valid_for) => Ok(Some(valid_for)),
            Err(Error::Lost(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The reply to a caller that asks for the lock that it holds by another agent: the fence, if it asks on the terms
    /// on which it holds it, and then for a lease of this length. Another agent's lock ends with no connection of this
    /// one.
    pub(super) async fn joined(&self, asked: &Terms) -> Option<Reply> {
        let Attempt { name, mode, fence } = self.attempt().await.ok().flatten()?;
        let (client, fence) = (&self.agent.client, fence?);
        let refused = if mode == asked.mode {
            asked.ephemeral.then(|| Reply::error(OTHER_END))
        } else {
            Some(Reply::error(Reason::OtherMode { held: mode, asked: asked.mode }))
        };
        if refused.is_some() {
            let holds = client.check_attempt(&self.name.key, &name, Some(fence.0)).await;
            return refused.filter(|_| holds.is_ok_and(|holds| holds));
        }
        let valid_for = self.extended(&name, fence, asked.ttl).await.ok().flatten()?;
        (!valid_for.is_zero()).then(|| Reply::number(fence.0))
    }
}

/// The agent that has taken the lock may still give it up.
fn unsettled() -> Found {
    Ok(Some(Reply::error(UNSETTLED)))
}

const UNSETTLED: &str =
    "TRYAGAIN the agent that has taken this lock may still give it up; ask that agent, or again";
