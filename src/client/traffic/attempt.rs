//! One attempt at a lock: its token, and the connections over which its requests went to each node.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dlock_core::words::{Instant, Millis};
use futures_util::future::join_all;
use redis::{Cmd, Value};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use crate::clock;
use crate::reach::node::{Answered, Node};
use crate::reach::wire::Wire;
use crate::report::NodeError;
use crate::report::code::code;
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
    /// The next request that waits is not sent earlier.
    rests_until: Instant,
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
        answer
    }

    /// Sends an ACQUIRE that is blocked at the node for at most `slice`, over a connection of its own,
    /// and waits for its answer. The attempt's RELEASE ends that and closes the connection.
    pub(crate) async fn wait(
        &self,
        node: &Arc<Node>,
        place: usize,
        command: &Cmd,
        slice: Millis,
        within: Duration,
    ) -> Result<Answered, NodeError> {
        let (sender, ended) = oneshot::channel();
        let rests_until = {
            let mut lane = self.lane(place);
            if lane.given_up {
                return Err(given_up());
            }
            lane.waiting = Some(sender);
            lane.has_waited = true;
            lane.rests_until
        };
        let slice = Duration::from_millis(slice.0);
        let answer = async {
            if clock::now() < rests_until {
                sleep(clock::left(rests_until)).await;
            }
            let soon = clock::later(clock::now(), FIRST_PAUSE.min(slice / 2));
            let again = || self.lane(place).sent_again = true;
            let answer = node.wait(command, slice.saturating_add(within), again).await;
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

    /// Sends no ACQUIRE to this node from now on. Returns the connections over which to send the RELEASE,
    /// and whether a RELEASE is needed at all.
    pub(crate) fn give_up(&self, place: usize) -> (Vec<Wire>, bool) {
        let mut lane = self.lane(place);
        lane.given_up = true;
        lane.waiting = None;
        let needed = lane.has_waited || !lane.wires.is_empty();
        (lane.wires.drain(..).map(|(wire, _)| wire).collect(), needed)
    }

    fn lane(&self, place: usize) -> MutexGuard<'_, Lane> {
        // Places are those of the nodes, for which the lanes were made.
        self.lanes[place].lock().unwrap_or_else(PoisonError::into_inner)
    }
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

    /// An ACQUIRE was answered over this connection.
    fn answered(&mut self, wire: &Wire) {
        for (_, open) in self.wires.iter_mut().filter(|(used, _)| used.is(wire)) {
            *open = open.saturating_sub(1);
        }
    }
}

/// The outcome of a RELEASE at one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Released {
    /// The token held the lock there.
    Held,
    /// It did not.
    NotHeld,
    /// The node answered, but not to the first request, so nobody knows whether the token held the lock.
    Either,
    /// The node does not answer.
    No,
}

/// A RELEASE, as it is sent.
pub(crate) struct Release {
    pub(crate) command: Cmd,
    /// What is sent where there is no room for one more FINAL: what comes late then takes a place,
    /// which ends by itself.
    pub(crate) instead: Option<Cmd>,
}

/// Releases at one node, over the connections of the earlier requests, so that the RELEASE arrives after
/// them. Without an answer, it is sent again over other connections until the lease is over.
pub(crate) async fn release(
    node: Arc<Node>,
    mut wires: Vec<Wire>,
    command: Release,
    within: Duration,
    until: Instant,
) -> Released {
    if wires.is_empty() {
        wires.extend(timeout(within, node.wire()).await.ok().and_then(Result::ok));
    }
    let Release { mut command, mut instead } = command;
    let answers = join_all(wires.iter().map(|wire| node.send_over(wire, &command, within))).await;
    if let [Ok(answer)] = answers.as_slice() {
        let held = *answer == Value::Int(1);
        return if held { Released::Held } else { Released::NotHeld };
    }
    if !answers.is_empty() && answers.iter().all(Result::is_ok) {
        return Released::Either;
    }
    let mut pause = FIRST_PAUSE;
    loop {
        match node.ask(&command, within, |_, _| Ok(())).await {
            Ok(_) => return Released::Either,
            Err(NodeError::Refused(text)) if code(&text) == TOO_MANY_FINALS => match instead.take()
            {
                Some(plain) => {
                    command = plain;
                    continue;
                }
                None => return Released::No,
            },
            Err(NodeError::Refused(_) | NodeError::Unfit(_) | NodeError::Duplicate { .. }) => {
                return Released::No;
            }
            Err(_) if clock::left(until) <= pause => return Released::No,
            Err(_) => sleep(pause).await,
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

fn given_up() -> NodeError {
    NodeError::Unreachable("it was not asked any more".to_owned())
}

const TOO_MANY_FINALS: &str = "TOOMANYFINALS";
const MAX_WIRES: usize = 4;
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
