//! The requests of one acquisition, or of the lock that it won, and the nodes' answers.
//!
//! [`request`]: the commands. [`attempt`]: the connections that carry them. [`raise`]: raising a fence at a
//! node whose clock is behind. [`answer`]: the meaning of the replies to the rules. [`releases`]: the releases.
//! [`under_way`]: a few futures at once.

pub(crate) mod answer;
pub(crate) mod attempt;
mod raise;
mod releases;
pub(crate) mod request;
pub(crate) mod under_way;

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, ready};
use std::time::Duration;

use dlock_core::quorum::{Answer, Ask, Send, Wait};
use dlock_core::words::Instant;
use redis::Cmd;
use tokio::sync::watch;
use tracing::trace;

use crate::clock;
use crate::reach::node::Answered;
use crate::report::{NodeError, NodeState, Report};
use crate::shared::Shared;
use crate::token::Token;
use attempt::Attempt;
use releases::Returned;
use request::Wanted;
use under_way::UnderWay;

/// The requests under way, and the states of the nodes.
pub(crate) struct Traffic {
    pub(crate) shared: Arc<Shared>,
    pub(crate) wanted: Arc<Wanted>,
    /// Time-out of a request to a node.
    pub(crate) timeout: Duration,
    attempt: Arc<Attempt>,
    requests: UnderWay<Unread>,
    releases: UnderWay<Returned>,
    /// For each node: true if it has released the newest attempt's lock, or never had it.
    released: Vec<bool>,
    /// The number of nodes that did not hold the newest attempt's lock at its release.
    not_held: usize,
    /// End of the leases that the nodes may have granted to it.
    until: Instant,
    states: Vec<NodeState>,
    /// For each node: number of changes of its server that the rules have received.
    changes: Vec<u64>,
    /// For each node: number of returns of its connection that the rules have received.
    returns: Vec<u64>,
    /// Wakes this when one of these numbers has grown.
    taken: watch::Receiver<()>,
    /// The answer that arrived at the same time as such a change.
    next: Option<Unread>,
    /// The holder's text about the outcome when it leaves the lock done.
    pub(crate) outcome: Vec<u8>,
}

/// A node's answer to a request, not yet read.
struct Unread {
    attempt: Arc<Attempt>,
    send: Send,
    answer: Result<Answered, NodeError>,
    sent: Instant,
}

/// An event at a node.
pub(crate) enum Heard {
    /// The answer to a request.
    Reply(Reply),
    /// The grants of this node are void: another server has taken the node's place.
    CutOff(usize),
    /// The connection to this node works again.
    Back(usize),
}

/// A node's answer, or its absence.
pub(crate) struct Reply {
    pub(crate) node: usize,
    pub(crate) id: u32,
    pub(crate) answer: Answer,
    /// Time of the answered request's sending.
    pub(crate) sent: Instant,
    pub(crate) state: NodeState,
}

impl Traffic {
    pub(crate) fn new(shared: Arc<Shared>, wanted: Arc<Wanted>) -> Traffic {
        let attempt = Attempt::new(FIRST, Token::random(), shared.nodes.len());
        Traffic::of(shared, wanted, attempt)
    }

    /// Traffic of a lock that another process has acquired by this token.
    #[cfg(feature = "operator")]
    pub(crate) fn taken_over(shared: Arc<Shared>, wanted: Arc<Wanted>, token: Token) -> Traffic {
        let attempt = Attempt::taken_over(token, shared.nodes.len());
        Traffic::of(shared, wanted, attempt)
    }

    fn of(shared: Arc<Shared>, wanted: Arc<Wanted>, attempt: Attempt) -> Traffic {
        let nodes = shared.nodes.len();
        let mut taken = shared.taken.clone();
        taken.mark_unchanged();
        Traffic {
            timeout: shared.timeout(wanted.options.ttl),
            attempt: Arc::new(attempt),
            requests: UnderWay::new(),
            releases: UnderWay::new(),
            released: vec![false; nodes],
            not_held: 0,
            until: clock::now(),
            states: vec![NodeState::NotAsked; nodes],
            taken,
            changes: shared.nodes.iter().map(|node| node.changes()).collect(),
            returns: shared.nodes.iter().map(|node| node.returns()).collect(),
            next: None,
            outcome: Vec::new(),
            shared,
            wanted,
        }
    }

    /// The token of the newest attempt.
    pub(crate) fn token(&self) -> Token {
        self.attempt.token
    }

    /// Sets the length of the lease in use. A waiter's first one is short, and the time-out stays the lock's own.
    pub(crate) fn set_lease(&mut self, lease: Duration) {
        let timeout = self.shared.timeout(lease.max(self.wanted.options.ttl));
        self.timeout = timeout.min(lease / 4);
    }

    /// Prepares a request. The next call of `next` sends it.
    pub(crate) fn send(&mut self, send: Send) {
        let Some(node) = self.shared.nodes.get(send.node).map(Arc::clone) else { return };
        if send.attempt != self.attempt.number {
            debug_assert!(!is_release(send.ask), "an attempt is released before the next");
            self.begin(send.attempt);
        }
        let attempt = Arc::clone(&self.attempt);
        let within = match send.ask {
            // So that it can be repeated while a shorter lease lasts.
            Ask::Extend { .. } => self.timeout.min(Duration::from_millis(send.ttl.0) / 4),
            _ => self.timeout,
        };
        trace!(node = node.name(), attempt = send.attempt, ask = ?send.ask, "asks");
        if is_release(send.ask) {
            return self.release(send, node, &attempt);
        }
        let mut command = self.wanted.command(send, &attempt.token);
        if send.ask.finishes() && !self.outcome.is_empty() {
            command.arg("META").arg(&self.outcome);
        }
        if matches!(send.ask, Ask::Acquire { wait: Some(Wait { turn: true, .. }), .. }) {
            self.warm_up(send.node, &command);
        }
        let polled = self.wanted.polled(send, &attempt.token);
        self.requests.push(async move {
            let to = (&node, send.node);
            let (answer, sent) = match (send.ask, polled) {
                (
                    Ask::Acquire { wait: Some(Wait { blocks: Some(slice), .. }), .. },
                    Some(polled),
                ) => attempt.wait(to, send.ask, (&command, &polled), slice, within).await,
                (Ask::Extend { fence }, _) => {
                    raise::raise(&attempt, to, &command, fence, within).await
                }
                (ask, _) => attempt.ask(to, ask, &command, within).await,
            };
            Unread { attempt, send, answer, sent }
        });
    }

    /// As [`hear`](Traffic::hear), and returns changes of the nodes at once.
    pub(crate) async fn next(&mut self) -> Heard {
        let mut taken = self.taken.clone();
        loop {
            tokio::select! {
                biased;
                heard = self.hear() => return heard,
                Ok(()) = taken.changed() => {
                    self.taken.mark_unchanged();
                    let heard = self.displaced().map(Heard::CutOff);
                    if let Some(heard) = heard.or_else(|| self.back().map(Heard::Back)) {
                        // There may be more than one change.
                        self.taken.mark_changed();
                        return heard;
                    }
                }
            }
        }
    }

    /// Sends all prepared requests at once, and returns the next answer, or a change of a node's server before it.
    pub(crate) async fn hear(&mut self) -> Heard {
        poll_fn(|cx| {
            // Releases first: they make room for the next requests.
            while let Poll::Ready(returned) = self.releases.poll(cx) {
                self.note_release(returned);
            }
            loop {
                let unread = match self.next.take() {
                    Some(unread) => unread,
                    None => ready!(self.requests.poll(cx)),
                };
                if let Some(heard) = self.read(unread) {
                    return Poll::Ready(heard);
                }
            }
        })
        .await
    }

    /// Returns a node with a change of its server that the rules have not received.
    fn displaced(&mut self) -> Option<usize> {
        let changes = self.shared.nodes.iter().map(|node| node.changes());
        let node = untold(changes, &mut self.changes)?;
        if matches!(self.states.get(node), Some(NodeState::Granted(_))) {
            self.set_state(node, NodeState::Gone);
        }
        Some(node)
    }

    /// Returns a node with a return of its connection that the rules have not received.
    fn back(&mut self) -> Option<usize> {
        untold(self.shared.nodes.iter().map(|node| node.returns()), &mut self.returns)
    }

    /// Reads an answer, unless a change of a node's server comes first.
    fn read(&mut self, unread: Unread) -> Option<Heard> {
        if let Some(node) = self.displaced() {
            self.next = Some(unread);
            return Some(Heard::CutOff(node));
        }
        let Unread { attempt, send, answer, sent } = unread;
        let node = self.shared.nodes.get(send.node)?;
        let (answer, state) = answer::read(&send.ask, node.counted(answer));
        node.note(&state);
        // After the RELEASE, silence is no sign of the node's state.
        if matches!(answer, Answer::Silent | Answer::Unreachable) && attempt.is_given_up(send.node)
        {
            return None;
        }
        let reply = Reply { node: send.node, id: send.id, answer, sent, state };
        self.note(&reply);
        Some(Heard::Reply(reply))
    }

    /// Forgets the requests that are under way. A waiting request leaves the node's queue.
    pub(crate) fn forget_requests(&mut self) {
        self.next = None;
        self.requests.clear();
    }

    /// Last known state of each node.
    pub(crate) fn reports(&self) -> Vec<Report> {
        self.shared.reports(self.states.iter().cloned())
    }

    /// Opens the connections to the other nodes before the turn of a request at the gate, which will ask
    /// them then.
    fn warm_up(&self, gate: usize, command: &Cmd) {
        let others = self.shared.nodes.iter().enumerate().filter(|(place, _)| *place != gate);
        for node in others.map(|(_, node)| Arc::clone(node)).filter(|node| !node.has_idle()) {
            let command = command.clone();
            tokio::spawn(async move { node.warm_up(&command).await });
        }
    }

    fn begin(&mut self, number: u32) {
        self.attempt = Arc::new(Attempt::new(number, Token::random(), self.shared.nodes.len()));
        self.released = vec![false; self.shared.nodes.len()];
        self.not_held = 0;
    }

    fn note(&mut self, reply: &Reply) {
        trace!(node = reply.node, answer = ?reply.answer, state = ?reply.state, "answers");
        // A completion record has taken the lease's place: there is nothing to release.
        if reply.answer == Answer::Finished {
            self.set_released(reply.node);
        }
        let before = self.states.get(reply.node);
        let tells_more = matches!(before, Some(NodeState::Granted(_) | NodeState::Held));
        if !(reply.state == NodeState::Answers && tells_more) {
            self.set_state(reply.node, reply.state.clone());
        }
    }

    fn set_state(&mut self, node: usize, said: NodeState) {
        if let Some(state) = self.states.get_mut(node) {
            *state = said;
        }
    }
}

/// Finds the first number that has changed, and marks it as reported.
fn untold(now: impl Iterator<Item = u64>, told: &mut [u64]) -> Option<usize> {
    let (node, (now, told)) = now.zip(told).enumerate().find(|(_, (now, told))| now != *told)?;
    *told = now;
    Some(node)
}

/// The number of the first attempt.
const FIRST: u32 = 1;

fn is_release(ask: Ask) -> bool {
    ask == Ask::Release
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use dlock_core::Fence;

    use crate::{Client, LockOptions};

    pub(super) fn traffic(nodes: impl IntoIterator<Item = String>) -> (Client, Traffic) {
        let client = Client::builder().nodes(nodes).connect_later().unwrap();
        let options = LockOptions::default();
        let wanted = Wanted::new("job".into(), options);
        let traffic = Traffic::new(Arc::clone(&client.shared), Arc::new(wanted));
        (client, traffic)
    }

    #[tokio::test]
    async fn a_connection_that_is_opened_for_later_is_no_release_under_way() {
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let silent = format!("redis://{}", silent.local_addr().unwrap());
        let nodes = ["redis://127.0.0.1:1".to_owned(), silent];
        let (client, traffic) = traffic(nodes);
        traffic.warm_up(0, redis::cmd("DLOCK.ACQUIRE").arg("job"));
        assert!(client.released(Duration::ZERO).await);
    }

    #[tokio::test]
    async fn a_time_out_is_the_locks_own_and_a_quarter_of_the_lease_at_most() {
        let (_client, mut traffic) = traffic(["redis://127.0.0.1:1".to_owned()]);
        assert_eq!(traffic.wanted.options.ttl, Duration::from_secs(30));
        for (lease, timeout) in [(30_000, 1_000), (2_500, 625), (80, 20), (40_000, 1_000)] {
            traffic.set_lease(Duration::from_millis(lease));
            assert_eq!(traffic.timeout, Duration::from_millis(timeout));
        }
        // One node grants a short lease.
        let (node, attempt, ttl) = (0, traffic.attempt.number, dlock_core::Millis(80));
        let ask = Ask::Extend { fence: Fence(7) };
        traffic.send(Send { node, attempt, id: 1, ask, ttl, again: None });
        assert_eq!(traffic.timeout, Duration::from_secs(1));
    }
}
