//! The requests of one acquisition, or of the lock that it won, and the nodes' answers.
//!
//! [`request`]: the commands. [`attempt`]: over which connections they go. [`raise`]: a fence for
//! which a node's clock is not far enough. [`answer`]: what the replies mean to the rules.
//! [`under_way`]: a few futures at once.

pub(crate) mod answer;
mod attempt;
mod raise;
pub(crate) mod request;
pub(crate) mod under_way;

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Poll, ready};
use std::time::Duration;

use dlock_core::quorum::{Answer, Ask, Send, Wait};
use redis::Cmd;
use tokio::sync::watch;
use tokio::time::sleep;
use tracing::trace;

use crate::clock;
use crate::reach::node::Answered;
use crate::reach::wire::Wire;
use crate::report::{NodeError, NodeState, Report};
use crate::shared::Shared;
use crate::token::Token;
use attempt::{Attempt, Released};
use request::Wanted;
use under_way::UnderWay;

/// The requests that are under way, and what the nodes said.
pub(crate) struct Traffic {
    pub(crate) shared: Arc<Shared>,
    pub(crate) wanted: Arc<Wanted>,
    /// How long a node may take to answer.
    pub(crate) timeout: Duration,
    attempt: Arc<Attempt>,
    requests: UnderWay<Unread>,
    releases: UnderWay<(usize, Released)>,
    /// The ends of connections with which an EPHEMERAL lock ends.
    ends: UnderWay<(usize, Wire)>,
    /// How many nodes have answered a RELEASE.
    released: usize,
    states: Vec<NodeState>,
    /// How often each node's place was taken by another server, as far as that was told.
    changes: Vec<u64>,
    /// Says that there is something to be told.
    taken: watch::Receiver<()>,
    /// What arrived when such a change was noticed.
    next: Option<Unread>,
}

/// What a node has answered to a request, before anybody has looked at it.
struct Unread {
    attempt: Arc<Attempt>,
    send: Send,
    answer: Result<Answered, NodeError>,
}

/// What happened at a node.
pub(crate) enum Heard {
    /// An answer to a request.
    Reply(Reply),
    /// The grants of this node do not count any more: the connection of an EPHEMERAL lock has ended, or
    /// another server has taken the node's place.
    CutOff(usize),
}

/// A node's answer, or that there is none.
pub(crate) struct Reply {
    pub(crate) node: usize,
    pub(crate) id: u32,
    pub(crate) answer: Answer,
    pub(crate) state: NodeState,
    /// A request of this attempt was sent to the node once more, though the first may yet arrive.
    pub(crate) is_again: bool,
}

impl Reply {
    /// Whether the node did what it was asked for.
    pub(crate) fn is_yes(&self) -> bool {
        matches!(self.answer, Answer::Granted(_) | Answer::Extended | Answer::Done)
    }
}

impl Traffic {
    pub(crate) fn new(shared: Arc<Shared>, wanted: Arc<Wanted>) -> Traffic {
        let nodes = shared.nodes.len();
        let mut taken = shared.taken.clone();
        taken.mark_unchanged();
        Traffic {
            timeout: shared.timeout(wanted.ttl),
            attempt: Arc::new(Attempt::new(0, Token::random(), nodes)),
            requests: UnderWay::new(),
            releases: UnderWay::new(),
            ends: UnderWay::new(),
            released: 0,
            states: vec![NodeState::NotAsked; nodes],
            taken,
            changes: shared.nodes.iter().map(|node| node.changes()).collect(),
            next: None,
            shared,
            wanted,
        }
    }

    /// The token of the newest attempt.
    pub(crate) fn token(&self) -> Token {
        self.attempt.token
    }

    /// Prepares a request. It is sent when the answers are next waited for.
    pub(crate) fn send(&mut self, send: Send) {
        let Some(node) = self.shared.nodes.get(send.node).map(Arc::clone) else { return };
        if send.attempt != self.attempt.number {
            debug_assert!(!is_release(send.ask), "an attempt is released before the next");
            self.begin(send.attempt);
        }
        let (attempt, within) = (Arc::clone(&self.attempt), self.timeout);
        let command = self.wanted.command(send, &attempt.token);
        trace!(node = node.name(), attempt = send.attempt, ask = ?send.ask, "asks");
        if is_release(send.ask) {
            let (wires, needed) = attempt.give_up(send.node);
            if needed {
                let until = clock::later(clock::now(), Duration::from_millis(send.ttl.0));
                let plain = Send { ask: Ask::Release { is_final: false }, ..send };
                let instead = (send != plain).then(|| self.wanted.command(plain, &attempt.token));
                let release = attempt::Release { command, instead };
                self.releases.push(async move {
                    (send.node, attempt::release(node, wires, release, within, until).await)
                });
            } else {
                self.released += 1;
            }
            return;
        }
        if matches!(send.ask, Ask::Acquire { wait: Some(Wait { turn: true, .. }), .. }) {
            self.warm_up(send.node, &command);
        }
        self.requests.push(async move {
            let place = send.node;
            let answer = match send.ask {
                Ask::Acquire { wait: Some(Wait { blocks: Some(slice), .. }), .. } => {
                    attempt.wait(&node, place, &command, slice, within).await
                }
                Ask::Acquire { .. } => attempt.acquire(&node, place, &command, within).await,
                Ask::Extend { fence: Some(fence) } => {
                    raise::raise(&node, &command, fence, within).await
                }
                Ask::GiveBack => node.ask_once(&command, within).await,
                _ => node.ask(&command, within, |_, _| Ok(())).await,
            };
            Unread { attempt, send, answer }
        });
    }

    /// Sends all prepared requests at once, and returns what happens next.
    pub(crate) async fn next(&mut self) -> Heard {
        let mut taken = self.taken.clone();
        loop {
            tokio::select! {
                biased;
                heard = self.hear() => return heard,
                Ok(()) = taken.changed() => {
                    self.taken.mark_unchanged();
                    if let Some(node) = self.displaced() {
                        // There may be more than one.
                        self.taken.mark_changed();
                        return Heard::CutOff(node);
                    }
                }
            }
        }
    }

    async fn hear(&mut self) -> Heard {
        poll_fn(|cx| {
            // Releases first: they make room for the next requests.
            while let Poll::Ready((_, outcome)) = self.releases.poll(cx) {
                self.released += usize::from(outcome != Released::No);
            }
            while let Poll::Ready((node, wire)) = self.ends.poll(cx) {
                if self.attempt.ties(node).iter().any(|tie| tie.is(&wire)) {
                    return Poll::Ready(Heard::CutOff(node));
                }
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

    /// A node whose place another server has taken, if nobody was told of that yet.
    fn displaced(&mut self) -> Option<usize> {
        let now = self.shared.nodes.iter().map(|node| node.changes());
        let mut changed = now.zip(&mut self.changes).enumerate();
        let (node, (now, told)) = changed.find(|(_, (now, told))| now != *told)?;
        *told = now;
        Some(node)
    }

    /// What an answer means; but if another server has taken the place of a node, that comes first.
    fn read(&mut self, unread: Unread) -> Option<Heard> {
        if let Some(node) = self.displaced() {
            self.next = Some(unread);
            return Some(Heard::CutOff(node));
        }
        let Unread { attempt, send, answer } = unread;
        let node = self.shared.nodes.get(send.node)?;
        let binds = self.wanted.ephemeral && !send.ask.blocks();
        let (answer, state) = match answer::read(&send.ask, node.counted(answer)) {
            (Answer::Granted(_), _) if binds && attempt.is_untied(send.node) => answer::untied(),
            read => read,
        };
        node.note(&state);
        // Whoever was not to be asked any more says nothing by that.
        if matches!(answer, Answer::Silent | Answer::Unreachable) && attempt.is_given_up(send.node)
        {
            return None;
        }
        let is_again = attempt.is_sent_again(send.node) && Arc::ptr_eq(&attempt, &self.attempt);
        let reply = Reply { node: send.node, id: send.id, answer, state, is_again };
        self.note(&reply);
        self.watch(&reply);
        Some(Heard::Reply(reply))
    }

    /// Watches the connection of an EPHEMERAL lock: when it ends, the holder has to know at once.
    fn watch(&mut self, reply: &Reply) {
        let node = reply.node;
        if !self.wanted.ephemeral || !matches!(reply.answer, Answer::Granted(_)) {
            return;
        }
        for wire in self.attempt.ties(node) {
            self.ends.push(async move {
                wire.closed().await;
                (node, wire)
            });
        }
    }

    /// Waits until the nodes that answer have answered a RELEASE, but not long for the last of them.
    /// Returns whether a majority may have held the lock until then.
    pub(crate) async fn released(&mut self) -> bool {
        let majority = self.shared.majority();
        let mut expected = self.states.iter().filter(|state| state.answers()).count().max(majority);
        let mut held = self.shared.nodes.len();
        let mut last = pin!(sleep(self.timeout));
        while self.released < expected {
            let outcome = tokio::select! {
                biased;
                outcome = self.releases.next() => outcome,
                () = &mut last => break,
            };
            let Some((node, outcome)) = outcome else { break };
            if outcome == Released::NotHeld {
                held -= 1;
                self.set_state(node, NodeState::Gone);
            }
            if outcome == Released::No {
                // It refuses, say: nothing more is to come of it.
                expected = majority.max(expected - 1);
                continue;
            }
            self.released += 1;
            if self.released == majority {
                last.set(sleep(self.timeout / 4));
            }
        }
        held >= majority
    }

    /// Forgets the requests, and finishes the releases in the background.
    pub(crate) fn finish(mut self) {
        self.requests.clear();
        if !self.releases.is_empty() {
            let shared = Arc::clone(&self.shared);
            shared.background.spawn(async move { while self.releases.next().await.is_some() {} });
        }
    }

    /// Forgets the requests that are under way. One that waits leaves the node's queue.
    pub(crate) fn forget_requests(&mut self) {
        self.next = None;
        self.requests.clear();
    }

    /// What each node said last.
    pub(crate) fn reports(&self) -> Vec<Report> {
        let named = self.shared.nodes.iter().zip(&self.states);
        named
            .map(|(node, state)| Report { node: node.name().to_owned(), state: state.clone() })
            .collect()
    }

    /// The same where no majority grants anything. Who waits at a node until its time is over is told no more
    /// than that, also by one in quarantine.
    pub(crate) fn reports_of_an_outage(&self) -> Vec<Report> {
        let mut reports = self.reports();
        for (node, report) in self.shared.nodes.iter().zip(&mut reports) {
            let left = node.quarantine();
            if report.state == NodeState::Held && !left.is_zero() {
                report.state = NodeState::Quarantine(left);
            }
        }
        reports
    }

    /// One that queues at the gate asks the others at its turn. The connections are made until then.
    fn warm_up(&self, gate: usize, command: &Cmd) {
        let others = self.shared.nodes.iter().enumerate().filter(|(place, _)| *place != gate);
        for node in others.map(|(_, node)| Arc::clone(node)).filter(|node| !node.has_idle()) {
            let command = command.clone();
            self.shared.background.spawn(async move { node.warm_up(&command).await });
        }
    }

    fn begin(&mut self, number: u32) {
        self.attempt = Arc::new(Attempt::new(number, Token::random(), self.shared.nodes.len()));
        self.ends.clear();
    }

    fn note(&mut self, reply: &Reply) {
        trace!(node = reply.node, answer = ?reply.answer, state = ?reply.state, "answers");
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

fn is_release(ask: Ask) -> bool {
    matches!(ask, Ask::Release { .. })
}
