//! One attempt at a lock: its token, and the connections that carried its requests to each node.

use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dlock_core::words::{Instant, Millis};
use futures_util::future::join_all;
use redis::{Cmd, Value};
use tokio::sync::{Semaphore, oneshot};
use tokio::time::{sleep, timeout};

use crate::clock;
use crate::reach::cluster::redirect::Redirect;
use crate::reach::node::{Answered, Node};
use crate::reach::waiting_connections::{self, Permit};
use crate::reach::wire::Wire;
use crate::report::NodeError;
use crate::report::code::{TOO_MANY_FINALS, code, may_pass};
use crate::token::Token;

/// An attempt.
pub(crate) struct Attempt {
    pub(crate) number: u32,
    pub(crate) token: Token,
    /// The requests to each node, by its index.
    requests: Vec<Mutex<NodeRequests>>,
}

/// The requests of one attempt to one node.
#[derive(Default)]
struct NodeRequests {
    /// A RELEASE was sent, so no more ACQUIRE may be sent.
    given_up: bool,
    /// Connections that carried an ACQUIRE, each with its number of unanswered ones.
    wires: Vec<(Wire, u32)>,
    /// A request was sent once more because the first had no answer. Requests to a former primary do not
    /// arrive at the present one.
    sent_again: bool,
    /// Forgets a request that blocks, or has blocked, at the node when this is dropped.
    waiting: Option<oneshot::Sender<()>>,
    has_waited: bool,
    /// Numbers of requests for the lock, and of those that the node refused: a refused request left nothing.
    requests: u32,
    refused: u32,
    /// Permit for the next request that waits.
    permit: Option<Permit>,
    /// Earliest time of the next request that waits.
    rests_until: Instant,
}

/// Work left to do at a node when its attempt is over.
pub(crate) struct GivenUp {
    /// Connections over which to send the RELEASE.
    wires: Vec<Wire>,
    /// True if a RELEASE is necessary at all.
    pub(crate) is_needed: bool,
    /// True if an ACQUIRE was sent twice: it may arrive after the RELEASE.
    pub(crate) has_stray: bool,
    /// True if the node may have granted something. A node that refused every request has not: if it refuses
    /// the RELEASE as well, that is not sent again.
    may_have_granted: bool,
}

impl Attempt {
    pub(crate) fn new(number: u32, token: Token, nodes: usize) -> Attempt {
        let requests = (0..nodes).map(|_| Mutex::default()).collect();
        Attempt { number, token, requests }
    }

    /// The attempt of another process, which has handed it over: each node may have granted its requests.
    #[cfg(feature = "operator")]
    pub(crate) fn taken_over(token: Token, nodes: usize) -> Attempt {
        let sent = || NodeRequests { has_waited: true, requests: 1, ..NodeRequests::default() };
        let requests = (0..nodes).map(|_| Mutex::new(sent())).collect();
        Attempt { number: 0, token, requests }
    }

    /// Sends an ACQUIRE and waits for its answer.
    pub(crate) async fn acquire(
        &self,
        node: &Arc<Node>,
        place: usize,
        command: &Cmd,
        within: Duration,
    ) -> Result<Answered, NodeError> {
        let mut used: Option<Wire> = None;
        {
            let mut sent = self.requests_to(place);
            sent.requests += 1;
            sent.permit = None;
        }
        let answer = node
            .ask(command, within, |wire, again| {
                let mut sent = self.requests_to(place);
                if let Some(former) = used.replace(wire.clone()) {
                    match again {
                        true => sent.sent_again |= !former.is_astray(),
                        // The server redirected it.
                        false => sent.answered(&former),
                    }
                }
                sent.enter(wire)
            })
            .await;
        if let Some(wire) = used.filter(|_| has_answered(&answer)) {
            self.requests_to(place).answered(&wire);
        }
        self.requests_to(place).note(&answer);
        answer
    }

    /// Sends an ACQUIRE that blocks at the node for at most `slice`, over a connection of its own, and waits
    /// for its answer. The attempt's RELEASE ends that and closes the connection. Without a free permit it
    /// polls instead.
    pub(crate) async fn wait(
        &self,
        node: &Arc<Node>,
        place: usize,
        command: &Waits,
        slice: Millis,
        within: Duration,
    ) -> Result<Answered, NodeError> {
        let (sender, ended) = oneshot::channel();
        let (rests_until, permit) = {
            let mut sent = self.requests_to(place);
            if sent.given_up {
                return Err(given_up());
            }
            sent.waiting = Some(sender);
            sent.has_waited = true;
            (sent.rests_until, sent.permit.take())
        };
        let slice = Duration::from_millis(slice.0);
        let answer = async {
            if clock::now() < rests_until {
                sleep(clock::left(rests_until)).await;
            }
            let soon = clock::now().later(FIRST_PAUSE.min(slice / 2));
            let again = || self.requests_to(place).sent_again = true;
            let answer = match permit.map_or_else(waiting_connections::take, Ok) {
                Ok(_seat) => {
                    self.requests_to(place).requests += 1;
                    let limit = slice.saturating_add(within);
                    let answer = node.wait(&command.blocked, limit, again).await;
                    self.requests_to(place).note(&answer);
                    answer
                }
                // Boxed, because it is rare, and would make each request larger.
                Err(permits) => {
                    Box::pin(self.poll(node, place, command, slice, within, permits)).await
                }
            };
            // A server that refuses waiting requests at once, or cannot be reached, would otherwise be asked
            // in a busy loop.
            let is_no = answer.as_ref().is_ok_and(Answered::is_no);
            if is_no || matches!(answer, Err(NodeError::Unreachable(_))) {
                self.requests_to(place).rests_until = soon;
            }
            answer
        };
        tokio::select! {
            answer = answer => answer,
            _ = ended => Err(given_up()),
        }
    }

    /// Polls for the time that a request would wait, or until there is a permit for the next one.
    async fn poll(
        &self,
        node: &Arc<Node>,
        place: usize,
        command: &Waits,
        slice: Duration,
        within: Duration,
        permits: Arc<Semaphore>,
    ) -> Result<Answered, NodeError> {
        waiting_connections::tell();
        let until = clock::now().later(slice);
        let mut coming = pin!(permits.acquire_owned());
        let mut pause = FIRST_PAUSE;
        loop {
            let answer = self.acquire(node, place, &command.polled, within).await;
            let left = clock::left(until);
            if !answer.as_ref().is_ok_and(Answered::is_no) || left.is_zero() {
                return answer;
            }
            tokio::select! {
                biased;
                Ok(permit) = &mut coming => {
                    self.requests_to(place).permit = Some(permit);
                    return answer;
                }
                () = sleep(pause.min(slice / 4).min(left)) => {}
            }
            pause = (pause * 2).min(LONGEST_POLL);
        }
    }

    /// True if a RELEASE was sent. A later failure says nothing about the node.
    pub(crate) fn is_given_up(&self, place: usize) -> bool {
        self.requests_to(place).given_up
    }

    /// True if a request was sent to this node once more, though the first may yet arrive.
    pub(crate) fn is_sent_again(&self, place: usize) -> bool {
        self.requests_to(place).sent_again
    }

    /// Stops ACQUIREs to this node.
    pub(crate) fn give_up(&self, place: usize) -> GivenUp {
        let mut sent = self.requests_to(place);
        sent.given_up = true;
        sent.waiting = None;
        sent.permit = None;
        let is_needed = sent.has_waited || !sent.wires.is_empty();
        let may_have_granted = sent.requests > sent.refused || sent.sent_again;
        let wires = sent.wires.drain(..).map(|(wire, _)| wire).collect();
        let has_stray = sent.sent_again;
        GivenUp { wires, is_needed, has_stray, may_have_granted }
    }

    fn requests_to(&self, place: usize) -> MutexGuard<'_, NodeRequests> {
        // There is an entry for each place of the same nodes.
        self.requests[place].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request that waits, and its form for polling.
pub(crate) struct Waits {
    pub(crate) blocked: Cmd,
    pub(crate) polled: Cmd,
}

impl NodeRequests {
    fn enter(&mut self, wire: &Wire) -> Result<(), NodeError> {
        if self.given_up {
            return Err(given_up());
        }
        match self.wires.last_mut() {
            Some((last, open)) if last.is(wire) => *open += 1,
            _ => {
                self.wires.retain(|(_, open)| *open > 0);
                if self.wires.len() >= MAX_WIRES {
                    self.wires.remove(0);
                }
                self.wires.push((wire.clone(), 1));
            }
        }
        Ok(())
    }

    /// Counts refusals of an ACQUIRE. TURN means that the waiter has a place in the queue, and REPLACED that
    /// its request has a successor.
    fn note(&mut self, answer: &Result<Answered, NodeError>) {
        let is_refusal = match answer {
            Err(NodeError::Refused(text)) => !["TURN", "REPLACED"].contains(&code(text)),
            Err(NodeError::Unfit(_)) => true,
            _ => false,
        };
        self.refused += u32::from(is_refusal);
    }

    /// Counts the answer to an ACQUIRE over this connection.
    fn answered(&mut self, wire: &Wire) {
        for (_, open) in self.wires.iter_mut().filter(|(used, _)| used.is(wire)) {
            *open = open.saturating_sub(1);
        }
    }
}

/// The outcome of a RELEASE at one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Released {
    /// The token held the lock there.
    Held,
    /// The token did not hold the lock there.
    NotHeld,
    /// The node answered, but not the first request, so it is not known whether the token held the lock.
    Either,
    /// The node does not answer, or refuses, and is not asked again.
    No(NodeError),
    /// The node does not answer, or refuses for the moment: [`again`].
    NotYet(NodeError),
}

/// A RELEASE to one node.
#[derive(Clone)]
pub(crate) struct Release {
    pub(crate) command: Cmd,
    /// The command where the node has no room for one more FINAL: a late ACQUIRE then takes a place, which
    /// ends with its lease.
    pub(crate) instead: Option<Cmd>,
    /// End of the lease that the node may have granted; later releases are useless.
    pub(crate) until: Instant,
}

/// Releases at one node, over the connections of the earlier requests, so that the RELEASE arrives after
/// them.
pub(crate) async fn release(
    node: &Arc<Node>,
    given_up: GivenUp,
    command: &Cmd,
    within: Duration,
) -> Released {
    let GivenUp { mut wires, may_have_granted, .. } = given_up;
    if wires.is_empty() {
        match timeout(within, node.wire()).await.unwrap_or(Err(NodeError::TimedOut(within))) {
            Ok(wire) => wires.push(wire),
            Err(error) => return Released::NotYet(error),
        }
    }
    let sent = wires.iter().map(|wire| node.send_over(wire, command, within));
    let answers = join_all(sent).await;
    if let [Ok(answer)] = answers.as_slice() {
        let held = *answer == Value::Int(1);
        return if held { Released::Held } else { Released::NotHeld };
    }
    // Another server has the key now.
    let is_sent_on =
        |error: &NodeError| matches!(error, NodeError::Refused(text) if Redirect::is(text));
    if answers.iter().any(|answer| answer.as_ref().is_err_and(is_sent_on)) {
        let answer = node.ask(command, within, |_, _| Ok(())).await;
        return answer.map_or_else(Released::of, |_| Released::Either);
    }
    let is_reply = |error: &NodeError| matches!(error, NodeError::Refused(_) | NodeError::Unfit(_));
    let failed = answers.into_iter().filter_map(Result::err).map(|error| match is_reply(&error) {
        true if !may_have_granted => Released::No(error),
        _ => Released::of(error),
    });
    // If one of several had no answer, there is something to wait for.
    failed.max_by_key(|outcome| matches!(outcome, Released::NotYet(_))).unwrap_or(Released::Either)
}

/// Releases at a node that has not answered, or has refused for the moment: over other connections, again and
/// again, until it answers or the lease has ended.
pub(crate) async fn again(node: Arc<Node>, command: Release, within: Duration) -> Released {
    let Release { mut command, mut instead, until } = command;
    let mut pause = FIRST_PAUSE;
    loop {
        let error = match node.ask(&command, within, |_, _| Ok(())).await {
            Ok(_) => return Released::Either,
            Err(error) => error,
        };
        if has_no_room(&error)
            && let Some(plain) = instead.take()
        {
            command = plain;
            continue;
        }
        match Released::of(error) {
            Released::NotYet(_) if clock::left(until) > pause => sleep(pause).await,
            Released::NotYet(error) => return Released::No(error),
            outcome => return outcome,
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

impl Released {
    /// True if the node has nothing of this token any more, so that it counts for a majority.
    pub(crate) fn is_done(&self) -> bool {
        matches!(self, Released::Held | Released::NotHeld | Released::Either)
    }

    /// Decides whether to send a failed RELEASE again. A node without the module, or a replica, was a node
    /// when it granted, and may be one again.
    fn of(error: NodeError) -> Released {
        match &error {
            NodeError::Refused(text) if !has_no_room(&error) && !may_pass(text) => {
                Released::No(error)
            }
            _ => Released::NotYet(error),
        }
    }
}

fn has_answered(answer: &Result<Answered, NodeError>) -> bool {
    matches!(answer, Ok(_) | Err(NodeError::Refused(_) | NodeError::Unfit(_)))
}

fn has_no_room(error: &NodeError) -> bool {
    matches!(error, NodeError::Refused(text) if code(text) == TOO_MANY_FINALS)
}

fn given_up() -> NodeError {
    NodeError::Unreachable("the client gave up this attempt".to_owned())
}

const MAX_WIRES: usize = 4;
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// The longest pause between polls. A lock whose turn comes meanwhile stays reserved, and idle.
const LONGEST_POLL: Duration = Duration::from_secs(1);
