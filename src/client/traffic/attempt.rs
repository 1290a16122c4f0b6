//! One attempt at a lock: its token, and the connections over which its requests went to each node.

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
use crate::reach::seats::{self, Seat};
use crate::reach::wire::Wire;
use crate::report::NodeError;
use crate::report::code::{code, may_pass};
use crate::token::Token;

/// An attempt.
pub(crate) struct Attempt {
    pub(crate) number: u32,
    pub(crate) token: Token,
    /// A lane for each node.
    lanes: Vec<Mutex<Lane>>,
}

/// The requests of one attempt to one node.
#[derive(Default)]
struct Lane {
    /// A RELEASE was sent. From then on no ACQUIRE is sent.
    given_up: bool,
    /// Connections over which an ACQUIRE went, each with the number of unanswered ones. The last
    /// connection is kept in any case: an EPHEMERAL lock ends with it, unless an unanswered one arrives later.
    wires: Vec<(Wire, u32)>,
    /// One with unanswered ones was forgotten.
    forgotten: bool,
    /// A request was sent once more, because nobody had answered the first one. What was sent to a primary of
    /// the past does not arrive at the present one.
    sent_again: bool,
    /// A request is blocked at the node, or was; dropping this forgets it.
    waiting: Option<oneshot::Sender<()>>,
    has_waited: bool,
    /// How many requests for the lock there were, and how many of them the node refused: those left nothing.
    requests: u32,
    refused: u32,
    /// For the next request that waits.
    seat: Option<Seat>,
    /// The next request that waits is not sent earlier.
    rests_until: Instant,
}

/// What is left to do at a node when its attempt is over.
pub(crate) struct GivenUp {
    /// The connections over which to send the RELEASE.
    wires: Vec<Wire>,
    /// Whether a RELEASE is needed at all.
    pub(crate) is_needed: bool,
    /// Whether an ACQUIRE was sent twice. One of them may come after the RELEASE.
    pub(crate) sent_again: bool,
    /// Whether the node may have granted something. A node that refused every request has not, so a RELEASE
    /// that it refuses as well is not sent again.
    may_have_granted: bool,
}

impl Attempt {
    pub(crate) fn new(number: u32, token: Token, nodes: usize) -> Attempt {
        let lanes = (0..nodes).map(|_| Mutex::default()).collect();
        Attempt { number, token, lanes }
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
            let mut lane = self.lane(place);
            lane.requests += 1;
            lane.seat = None;
        }
        let answer = node
            .ask(command, within, |wire, again| {
                let mut lane = self.lane(place);
                if let Some(former) = used.replace(wire.clone()) {
                    match again {
                        true => lane.sent_again |= !former.is_astray(),
                        // It was sent on.
                        false => lane.answered(&former),
                    }
                }
                lane.enter(wire)
            })
            .await;
        if let (Some(wire), Ok(_) | Err(NodeError::Refused(_) | NodeError::Unfit(_))) =
            (used, &answer)
        {
            self.lane(place).answered(&wire);
        }
        self.lane(place).note(&answer);
        answer
    }

    /// Sends an ACQUIRE that is blocked at the node for at most `slice`, over a connection of its own,
    /// and waits for its answer. The attempt's RELEASE ends that and closes the connection. Where too many
    /// wait, it polls in place of that.
    pub(crate) async fn wait(
        &self,
        node: &Arc<Node>,
        place: usize,
        command: &Waits,
        slice: Millis,
        within: Duration,
    ) -> Result<Answered, NodeError> {
        let (sender, ended) = oneshot::channel();
        let (rests_until, seat) = {
            let mut lane = self.lane(place);
            if lane.given_up {
                return Err(given_up());
            }
            lane.waiting = Some(sender);
            lane.has_waited = true;
            (lane.rests_until, lane.seat.take())
        };
        let slice = Duration::from_millis(slice.0);
        let answer = async {
            if clock::now() < rests_until {
                sleep(clock::left(rests_until)).await;
            }
            let soon = clock::later(clock::now(), FIRST_PAUSE.min(slice / 2));
            let again = || self.lane(place).sent_again = true;
            let answer = match seat.map_or_else(seats::take, Ok) {
                Ok(_seat) => {
                    self.lane(place).requests += 1;
                    let limit = slice.saturating_add(within);
                    let answer = node.wait(&command.blocked, limit, again).await;
                    self.lane(place).note(&answer);
                    answer
                }
                Err(seats) => self.poll(node, place, command, slice, within, seats).await,
            };
            // Where requests are answered, and those that wait are told no at once or do not even get there,
            // the next one would follow at once, and so on.
            let is_no = answer.as_ref().is_ok_and(Answered::is_no);
            if is_no || matches!(answer, Err(NodeError::Unreachable(_))) {
                self.lane(place).rests_until = soon;
            }
            answer
        };
        tokio::select! {
            answer = answer => answer,
            _ = ended => Err(given_up()),
        }
    }

    /// Asks again and again for as long as a request would wait, or until there is a seat for the next one.
    async fn poll(
        &self,
        node: &Arc<Node>,
        place: usize,
        command: &Waits,
        slice: Duration,
        within: Duration,
        seats: Arc<Semaphore>,
    ) -> Result<Answered, NodeError> {
        seats::tell();
        let until = clock::later(clock::now(), slice);
        let mut coming = pin!(seats.acquire_owned());
        let mut pause = FIRST_PAUSE;
        loop {
            let answer = self.acquire(node, place, &command.polled, within).await;
            let left = clock::left(until);
            if !answer.as_ref().is_ok_and(Answered::is_no) || left.is_zero() {
                return answer;
            }
            tokio::select! {
                biased;
                Ok(seat) = &mut coming => {
                    self.lane(place).seat = Some(seat);
                    return answer;
                }
                () = sleep(pause.min(slice / 4).min(left)) => {}
            }
            pause = (pause * 2).min(LONGEST_POLL);
        }
    }

    /// Whether a RELEASE was sent. A failure after that says nothing about the node.
    pub(crate) fn is_given_up(&self, place: usize) -> bool {
        self.lane(place).given_up
    }

    /// Whether a request was sent to this node once more, though the first may yet arrive.
    pub(crate) fn is_sent_again(&self, place: usize) -> bool {
        self.lane(place).sent_again
    }

    /// The connections with which an EPHEMERAL lock may end at this node: that over which it was asked last,
    /// and those over which an earlier request may yet arrive.
    pub(crate) fn ties(&self, place: usize) -> Vec<Wire> {
        self.lane(place).ties().cloned().collect()
    }

    /// Whether one of them has ended: if its request arrives, the lock ends, and nobody hears of it.
    pub(crate) fn is_untied(&self, place: usize) -> bool {
        let lane = self.lane(place);
        lane.forgotten || lane.ties().any(|wire| wire.has_ended() && !wire.is_astray())
    }

    /// Sends no ACQUIRE to this node from now on.
    pub(crate) fn give_up(&self, place: usize) -> GivenUp {
        let mut lane = self.lane(place);
        lane.given_up = true;
        lane.waiting = None;
        lane.seat = None;
        let is_needed = lane.has_waited || !lane.wires.is_empty();
        let may_have_granted = lane.requests > lane.refused || lane.sent_again;
        let wires = lane.wires.drain(..).map(|(wire, _)| wire).collect();
        GivenUp { wires, is_needed, sent_again: lane.sent_again, may_have_granted }
    }

    fn lane(&self, place: usize) -> MutexGuard<'_, Lane> {
        // Places are those of the nodes, for which the lanes were made.
        self.lanes[place].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request that waits, and the same for who polls.
pub(crate) struct Waits {
    pub(crate) blocked: Cmd,
    pub(crate) polled: Cmd,
}

impl Lane {
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
                    self.forgotten = true;
                }
                self.wires.push((wire.clone(), 1));
            }
        }
        Ok(())
    }

    fn ties(&self) -> impl Iterator<Item = &Wire> {
        let last = self.wires.len().saturating_sub(1);
        let wires = self.wires.iter().enumerate();
        wires.filter(move |(at, (_, open))| *at == last || *open > 0).map(|(_, (wire, _))| wire)
    }

    /// The answer to an ACQUIRE. One that is told its turn has a place, and one that was replaced has a
    /// successor.
    fn note(&mut self, answer: &Result<Answered, NodeError>) {
        let is_refusal = match answer {
            Err(NodeError::Refused(text)) => !["TURN", "REPLACED"].contains(&code(text)),
            Err(NodeError::Unfit(_)) => true,
            _ => false,
        };
        self.refused += u32::from(is_refusal);
    }

    /// An ACQUIRE was answered over this connection.
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
    /// It did not.
    NotHeld,
    /// The node answered, but not to the first request, so nobody knows whether the token held the lock.
    Either,
    /// The node does not answer, or refuses, and is not asked again.
    No(NodeError),
    /// The same, but that may pass: [`again`].
    NotYet(NodeError),
}

/// A RELEASE, as it is sent.
#[derive(Clone)]
pub(crate) struct Release {
    pub(crate) command: Cmd,
    /// What is sent where there is no room for one more FINAL: what comes late then takes a place,
    /// which ends by itself.
    pub(crate) instead: Option<Cmd>,
    /// Until when it makes sense: the lease that the node may have granted.
    pub(crate) until: Instant,
}

/// Releases at one node, over the connections of the earlier requests, so that the RELEASE arrives after
/// them.
pub(crate) async fn release(
    node: Arc<Node>,
    given_up: GivenUp,
    command: Release,
    within: Duration,
) -> Released {
    let GivenUp { mut wires, may_have_granted, .. } = given_up;
    if wires.is_empty() {
        match timeout(within, node.wire()).await.unwrap_or(Err(NodeError::TimedOut(within))) {
            Ok(wire) => wires.push(wire),
            Err(error) => return Released::NotYet(error),
        }
    }
    let sent = wires.iter().map(|wire| node.send_over(wire, &command.command, within));
    let answers = join_all(sent).await;
    if let [Ok(answer)] = answers.as_slice() {
        let held = *answer == Value::Int(1);
        return if held { Released::Held } else { Released::NotHeld };
    }
    // Another server has the key by now.
    let is_sent_on =
        |error: &NodeError| matches!(error, NodeError::Refused(text) if Redirect::is(text));
    if answers.iter().any(|answer| answer.as_ref().is_err_and(is_sent_on)) {
        let answer = node.ask(&command.command, within, |_, _| Ok(())).await;
        return answer.map_or_else(Released::of, |_| Released::Either);
    }
    let is_reply = |error: &NodeError| matches!(error, NodeError::Refused(_) | NodeError::Unfit(_));
    let failed = answers.into_iter().filter_map(Result::err).map(|error| match is_reply(&error) {
        true if !may_have_granted => Released::No(error),
        _ => Released::of(error),
    });
    // Where one of several was not heard, there is something to wait for.
    failed.max_by_key(|outcome| matches!(outcome, Released::NotYet(_))).unwrap_or(Released::Either)
}

/// Releases at a node that has not answered, or has refused in passing: over other connections, again and
/// again, until it answers or the lease is over.
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
    /// Whether a majority may count on it: the node has nothing of this token any more.
    pub(crate) fn is_done(&self) -> bool {
        matches!(self, Released::Held | Released::NotHeld | Released::Either)
    }

    /// Whether a RELEASE that has failed so is sent again. A node without the module or a replica was a node
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

fn has_no_room(error: &NodeError) -> bool {
    matches!(error, NodeError::Refused(text) if code(text) == TOO_MANY_FINALS)
}

fn given_up() -> NodeError {
    NodeError::Unreachable("it was not asked any more".to_owned())
}

const TOO_MANY_FINALS: &str = "TOOMANYFINALS";
const MAX_WIRES: usize = 4;
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// The longest pause of who polls. A lock whose turn comes meanwhile is its own, and idle.
const LONGEST_POLL: Duration = Duration::from_secs(1);
