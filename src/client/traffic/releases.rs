//! The releases of a lock: sent, sent again, and what their outcomes say about the lock until then.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use dlock_core::quorum::Send;
use tokio::time::sleep;
use tracing::debug;

use super::Traffic;
use super::attempt::{self, Attempt, Released};
use crate::clock;
use crate::reach::node::Node;
use crate::report::{NodeState, Release};

/// The outcome of a RELEASE at one node, with the command, which may have to be sent again.
pub(super) struct Returned {
    node: usize,
    attempt: u32,
    outcome: Released,
    release: attempt::Release,
}

impl Traffic {
    /// Sends RELEASE to a node, unless it never had the lock.
    pub(super) fn release(&mut self, send: Send, node: Arc<Node>, attempt: &Attempt) {
        let Some(last_word) = attempt.give_up(send.node) else {
            // Without a grant or a completion record, the node never had the lock.
            self.not_held += usize::from(!self.has_released(send.node));
            return self.set_released(send.node);
        };
        let command = self.wanted.command(send, &attempt.token);
        let until = clock::now().later(Duration::from_millis(send.ttl.0));
        self.until = self.until.max(until);
        let mut release = attempt::Release::new(command, last_word, until);
        let (within, place, attempt) = (self.timeout, send.node, send.attempt);
        self.releases.push(async move {
            let outcome = attempt::release(&node, &mut release, within).await;
            Returned { node: place, attempt, outcome, release }
        });
    }

    /// Notes the outcome of a RELEASE, and sends it again if that can help.
    pub(super) fn note_release(&mut self, returned: Returned) {
        let Returned { node: place, attempt, outcome, mut release } = returned;
        if outcome.is_done() && attempt == self.attempt.number {
            self.set_released(place);
        }
        let node = self.shared.nodes.get(place).map(Arc::clone);
        if let (Released::NotYet(error), Some(node)) = (&outcome, node) {
            debug!(node = node.name(), %error, "releases again");
            let within = self.timeout;
            self.releases.push(async move {
                let outcome = attempt::again(&node, &mut release, within).await;
                Returned { node: place, attempt, outcome, release }
            });
        }
    }

    /// Waits until a majority of the nodes has released the lock, and the answers tell whether a majority has held it
    /// until then; for one time-out at most. Returns the outcome, and true if a majority may have held it. The rest
    /// goes on in the background.
    pub(crate) async fn released(&mut self) -> (Release, bool) {
        let (nodes, majority) = (self.shared.nodes.len(), self.shared.majority());
        let mut said = vec![NodeState::NotAsked; nodes];
        let mut last = pin!(sleep(self.timeout));
        loop {
            let released = self.count_released();
            let was_held = released - self.not_held >= majority;
            let was_lost = nodes - self.not_held < majority;
            let mut outcomes = self.released.iter().zip(&said);
            let have_all_answered =
                outcomes.all(|(released, said)| *released || !matches!(said, NodeState::NotAsked));
            if released >= majority && (was_held || was_lost || have_all_answered) {
                break;
            }
            let returned = tokio::select! {
                biased;
                returned = self.releases.next() => returned,
                () = &mut last => break,
            };
            let Some(returned) = returned else { break };
            match &returned.outcome {
                // A node that was slow to release an earlier attempt.
                _ if returned.attempt != self.attempt.number => {}
                // In its quarantine a node has forgotten leases that no other client can have yet.
                Released::NotHeld if self.shared.nodes[returned.node].quarantine().is_zero() => {
                    self.not_held += 1;
                    self.set_state(returned.node, NodeState::Gone);
                }
                // This node may not answer for a long time, so its RELEASE goes on in the
                // background.
                Released::No(error) | Released::NotYet(error) => {
                    if let Some(said) = said.get_mut(returned.node) {
                        *said = error.clone().into();
                    }
                }
                Released::Held | Released::NotHeld | Released::Either => {}
            }
            self.note_release(returned);
        }
        let is_free = self.count_released() >= majority;
        let left = self.shared.reports(said).into_iter().zip(&self.released);
        let left = left.filter(|(_, released)| !is_free && !**released).map(|(report, _)| report);
        let release = Release { is_free, left: left.collect(), within: clock::left(self.until) };
        (release, nodes - self.not_held >= majority)
    }

    /// The outcome of a release that is not sent, for a lock that ends within this time.
    pub(crate) fn not_released(&self, within: Duration) -> Release {
        let reports = self.reports().into_iter().zip(&self.released);
        let left = reports.filter(|(_, released)| !**released).map(|(report, _)| report);
        Release { is_free: false, left: left.collect(), within }
    }

    /// Forgets the requests, and finishes the releases.
    pub(crate) async fn finish(mut self) {
        self.requests.clear();
        while let Some(returned) = self.releases.next().await {
            self.note_release(returned);
        }
    }

    /// The same in the background.
    pub(crate) fn finish_later(self) {
        if !self.releases.is_empty() {
            Arc::clone(&self.shared).background.spawn(self.finish());
        }
    }

    pub(super) fn set_released(&mut self, node: usize) {
        if let Some(released) = self.released.get_mut(node) {
            *released = true;
        }
    }

    fn has_released(&self, node: usize) -> bool {
        self.released.get(node).is_some_and(|released| *released)
    }

    fn count_released(&self) -> usize {
        self.released.iter().filter(|released| **released).count()
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use super::*;
    use crate::traffic::tests::traffic;
    use dlock_core::Millis;
    use dlock_core::quorum::{Ask, LastWord};

    #[tokio::test]
    async fn a_release_that_was_never_sent_has_released_nothing() {
        let (client, _traffic) = traffic(["redis://127.0.0.1:1".to_owned()]);
        let mut release = plain();
        let node = &client.shared.nodes[0];
        let outcome = attempt::release(node, &mut release, Duration::from_secs(10)).await;
        // A later answer that the token did not hold the lock means a loss.
        assert!(matches!(outcome, Released::NotYet(_)) && !release.was_lost, "{outcome:?}");
    }

    #[tokio::test]
    async fn the_release_of_an_earlier_attempt_says_nothing_about_this_one() {
        let nodes = (1..=3).map(|port| format!("redis://127.0.0.1:{port}"));
        let (_client, mut traffic) = traffic(nodes);
        traffic.begin(2);
        let returned = [(0, 1, false), (0, 2, false), (1, 2, true), (2, 2, true)];
        for (node, attempt, was_held) in returned {
            let outcome = if was_held { Released::Held } else { Released::NotHeld };
            let release = plain();
            traffic.releases.push(ready(Returned { node, attempt, outcome, release }));
        }
        assert!(traffic.released().await.1, "a majority held it");
    }

    #[tokio::test]
    async fn a_node_that_was_never_reached_has_not_held_the_lock() {
        for (others, is_kept) in [([true, true], true), ([false, true], false)] {
            let nodes = (1..=3).map(|port| format!("redis://127.0.0.1:{port}"));
            let (_client, mut traffic) = traffic(nodes);
            let (node, ask, ttl) = (2, Ask::Release, Millis(9));
            let attempt = traffic.attempt.number;
            traffic.send(Send { node, attempt, id: 1, ask, ttl, again: None });
            for (node, was_held) in others.into_iter().enumerate() {
                let outcome = if was_held { Released::Held } else { Released::NotHeld };
                let release = plain();
                traffic.releases.push(ready(Returned { node, attempt, outcome, release }));
            }
            assert_eq!(traffic.released().await.1, is_kept);
        }
    }
    fn plain() -> attempt::Release {
        attempt::Release::new(redis::cmd("DLOCK.RELEASE"), LastWord::Plain, clock::now())
    }
}
