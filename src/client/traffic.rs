//! What one acquisition, or the lock that came of it, has under way to the nodes.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use dlock_core::quorum::{Answer, Ask, Send};
use dlock_core::words::Millis;
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tracing::trace;

use crate::answer;
use crate::attempt::{self, Attempt, Released};
use crate::client::Shared;
use crate::clock;
use crate::error::{NodeState, Report};
use crate::request::Wanted;
use crate::token::Token;

/// Requests under way, and what the nodes said.
pub(crate) struct Traffic {
    pub(crate) shared: Arc<Shared>,
    pub(crate) wanted: Arc<Wanted>,
    /// How long a node may take to answer.
    pub(crate) timeout: Duration,
    attempt: Arc<Attempt>,
    requests: FuturesUnordered<BoxFuture<'static, Reply>>,
    releases: FuturesUnordered<BoxFuture<'static, Released>>,
    /// How many nodes have answered a RELEASE.
    released: usize,
    states: Vec<NodeState>,
}

/// A node's answer, or that there is none.
pub(crate) struct Reply {
    pub(crate) node: usize,
    pub(crate) id: u32,
    pub(crate) answer: Answer,
    state: NodeState,
}

impl Traffic {
    pub(crate) fn new(shared: Arc<Shared>, wanted: Arc<Wanted>) -> Traffic {
        let nodes = shared.nodes.len();
        Traffic {
            timeout: shared.timeout(wanted.ttl),
            attempt: Arc::new(Attempt::new(0, Token::random(), nodes)),
            requests: FuturesUnordered::new(),
            releases: FuturesUnordered::new(),
            released: 0,
            states: vec![NodeState::NotAsked; nodes],
            shared,
            wanted,
        }
    }

    /// The token of the newest attempt.
    pub(crate) fn token(&self) -> Token {
        self.attempt.token
    }

    /// Prepares a request, with a lease of `ttl`. It is sent when the answers are next waited for.
    pub(crate) fn send(&mut self, send: Send, ttl: Millis) {
        let Some(node) = self.shared.nodes.get(send.node).map(Arc::clone) else { return };
        if send.attempt != self.attempt.number {
            debug_assert!(send.ask != Ask::Release, "an attempt is released before the next");
            self.begin(send.attempt);
        }
        let (attempt, within) = (Arc::clone(&self.attempt), self.timeout);
        let command = self.wanted.command(send.ask, &attempt.token, ttl);
        trace!(node = node.name(), attempt = send.attempt, ask = ?send.ask, "asks");
        if send.ask == Ask::Release {
            let (wires, needed) = attempt.give_up(send.node);
            if needed {
                let until = clock::later(clock::now(), Duration::from_millis(ttl.0));
                let release = attempt::release(node, wires, command, within, until);
                self.releases.push(Box::pin(release));
            } else {
                self.released += 1;
            }
            return;
        }
        self.requests.push(Box::pin(async move {
            let place = send.node;
            let reply = match send.ask {
                Ask::Acquire { wait: Some(wait), .. } => {
                    attempt.wait(&node, place, &command, wait, within).await
                }
                Ask::Acquire { .. } => attempt.acquire(&node, place, &command, within).await,
                _ => node.ask(&command, within, |_| Ok(())).await,
            };
            let (answer, state) = answer::read(&send.ask, reply);
            Reply { node: place, id: send.id, answer, state }
        }));
    }

    /// The next answer. Sends what is to be sent, all of it at once.
    pub(crate) async fn next(&mut self) -> Reply {
        let reply = poll_fn(|cx| {
            // First, so that what was given up makes room for what comes.
            while let Poll::Ready(Some(outcome)) = self.releases.poll_next_unpin(cx) {
                self.released += usize::from(outcome != Released::No);
            }
            match self.requests.poll_next_unpin(cx) {
                Poll::Ready(Some(reply)) => Poll::Ready(reply),
                _ => Poll::Pending,
            }
        });
        let reply = reply.await;
        self.note(&reply);
        reply
    }

    /// Waits until so many nodes have answered a RELEASE, or none is left that could. Whether so
    /// many may have been held that they are a majority.
    pub(crate) async fn released(&mut self, majority: usize) -> bool {
        let mut held = self.shared.nodes.len();
        while self.released < majority {
            match self.releases.next().await {
                Some(outcome) => {
                    held -= usize::from(outcome == Released::NotHeld);
                    self.released += usize::from(outcome != Released::No);
                }
                None => break,
            }
        }
        held >= majority
    }

    /// Forgets the requests, and goes on with the releases where nobody waits for them.
    pub(crate) fn finish(mut self) {
        self.requests.clear();
        if !self.releases.is_empty() {
            let shared = Arc::clone(&self.shared);
            shared.background.spawn(async move { while self.releases.next().await.is_some() {} });
        }
    }

    /// Forgets the requests that are under way. One that waits leaves the node's queue.
    pub(crate) fn forget_requests(&mut self) {
        self.requests.clear();
    }

    /// What each node said last.
    pub(crate) fn reports(&self) -> Vec<Report> {
        let named = self.shared.nodes.iter().zip(&self.states);
        named
            .map(|(node, state)| Report { node: node.name().to_owned(), state: state.clone() })
            .collect()
    }

    fn begin(&mut self, number: u32) {
        let token = self.wanted.token.unwrap_or_else(Token::random);
        self.attempt = Arc::new(Attempt::new(number, token, self.shared.nodes.len()));
    }

    fn note(&mut self, reply: &Reply) {
        trace!(node = reply.node, answer = ?reply.answer, "answers");
        let Some(state) = self.states.get_mut(reply.node) else { return };
        let tells_more = matches!(state, NodeState::Granted(_) | NodeState::Held);
        if !(reply.state == NodeState::Answers && tells_more) {
            *state = reply.state.clone();
        }
    }
}
