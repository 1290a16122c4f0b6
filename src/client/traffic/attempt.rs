//! One attempt at a lock: its token, and its requests to each node.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dlock_core::quorum::{Answer, Ask, LastWord, Obstacle, Requests, Wait};
use dlock_core::words::{Instant, Millis};
use redis::{Cmd, Value};
use tokio::sync::{Semaphore, SemaphorePermit, oneshot};
use tokio::time::{sleep, timeout};

use crate::clock;
use crate::reach::node::{Answered, Node};
use crate::reach::waiting_connections;
use crate::report::NodeError;
use crate::report::code::may_pass;
use crate::token::Token;
use crate::traffic::answer;

pub(crate) struct Attempt {
    pub(crate) number: u32,
    pub(crate) token: Token,
    /// The requests to each node, by its index.
    nodes: Vec<Mutex<NodeRequests>>,
}

/// The requests of one attempt to one node.
#[derive(Default)]
struct NodeRequests {
    requests: Requests,
    /// Forgets a request that blocks, or has blocked, at the node when this is dropped.
    waiting: Option<oneshot::Sender<()>>,
}

/// The answer to a request, and the time of the request's sending.
pub(crate) type Sent = (Result<Answered, NodeError>, Instant);

impl Attempt {
    pub(crate) fn new(number: u32, token: Token, nodes: usize) -> Attempt {
        Attempt { number, token, nodes: (0..nodes).map(|_| Mutex::default()).collect() }
    }

    /// An attempt that another process has handed over: each node may have granted its requests.
    #[cfg(feature = "operator")]
    pub(crate) fn taken_over(token: Token, nodes: usize) -> Attempt {
        let sent = || NodeRequests { requests: Requests::taken_over(), ..NodeRequests::default() };
        let nodes = (0..nodes).map(|_| Mutex::new(sent())).collect();
        Attempt { number: 0, token, nodes }
    }

    /// Sends a request and waits for its answer.
    pub(crate) async fn ask(
        &self,
        (node, place): (&Arc<Node>, usize),
        ask: Ask,
        command: &Cmd,
        within: Duration,
    ) -> Sent {
        let mut sending = self.sending(place, ask);
        let answer = node.ask(command, within, |again| sending.next(again)).await;
        sending.ends(answer)
    }

    /// Sends an ACQUIRE that blocks at the node for at most `slice`, over a connection of its own, and waits
    /// for its answer. The attempt's RELEASE ends the request and closes the connection. Without a free
    /// permit for a connection the attempt polls: the node's queue keeps its place meanwhile.
    pub(crate) async fn wait(
        &self,
        to: (&Arc<Node>, usize),
        ask: Ask,
        (blocked, polled): (&Cmd, &Cmd),
        slice: Millis,
        within: Duration,
    ) -> Sent {
        let (sender, ended) = oneshot::channel();
        {
            let mut sent = self.requests_to(to.1);
            if sent.requests.is_over() {
                return (Err(given_up()), clock::now());
            }
            sent.waiting = Some(sender);
        }
        let slice = Duration::from_millis(slice.0);
        let answer = async {
            let begun = clock::now();
            let queues = matches!(ask, Ask::Acquire { wait: Some(Wait { turn: true, .. }), .. });
            let sent = match waiting_connections::take(queues) {
                Some(_seat) => {
                    let mut sending = self.sending(to.1, ask);
                    let limit = slice.saturating_add(within);
                    let answer = to.0.wait(blocked, limit, |again| sending.next(again)).await;
                    sending.ends(answer)
                }
                None => {
                    // First the pause: requests with a connection must not come after those that poll.
                    sleep(POLL.min(slice / 4)).await;
                    // Boxed, because it is rare, and would make each request larger.
                    Box::pin(self.ask(to, ask, polled, within)).await
                }
            };
            // A server that refuses at once, or cannot be reached, would otherwise be asked in a busy loop.
            let is_no = sent.0.as_ref().is_ok_and(Answered::is_no);
            if is_no || matches!(sent.0, Err(NodeError::Unreachable(_))) {
                sleep(clock::left(begun.later(PAUSE.min(slice / 2)))).await;
            }
            sent
        };
        tokio::select! {
            sent = answer => sent,
            _ = ended => (Err(given_up()), clock::now()),
        }
    }

    /// True if the token's RELEASE was sent. A later failure is no sign of the node's state.
    pub(crate) fn is_given_up(&self, place: usize) -> bool {
        self.requests_to(place).requests.is_over()
    }

    /// Ends the use of the token at this node. Returns the RELEASE to send, if one is due.
    pub(crate) fn give_up(&self, place: usize) -> Option<LastWord> {
        let mut sent = self.requests_to(place);
        sent.waiting = None;
        sent.requests.end()
    }

    fn sending(&self, place: usize, ask: Ask) -> Sending<'_> {
        Sending { attempt: self, place, ask, at: Instant(0), is_sent: false }
    }

    fn requests_to(&self, place: usize) -> MutexGuard<'_, NodeRequests> {
        // There is an entry for each place of the same nodes.
        self.nodes[place].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request on its way. It may be sent more than once: after a redirect, or after its connection broke.
struct Sending<'a> {
    attempt: &'a Attempt,
    place: usize,
    ask: Ask,
    /// Time of the last sending.
    at: Instant,
    is_sent: bool,
}

impl Sending<'_> {
    /// Notes that the request is about to be sent; `again`: the last sending has no answer.
    fn next(&mut self, again: bool) -> Result<(), NodeError> {
        let requests = &mut self.attempt.requests_to(self.place).requests;
        if self.is_sent && !again {
            // A redirect: the server did not carry it out.
            requests.answered(self.ask, Answer::Refused(Obstacle::Busy));
        }
        self.is_sent = requests.send(self.ask);
        self.at = clock::now();
        if self.is_sent { Ok(()) } else { Err(given_up()) }
    }

    fn ends(self, answer: Result<Answered, NodeError>) -> Sent {
        let is_reply = match &answer {
            Ok(_) => true,
            Err(error) => is_refusal(error),
        };
        if self.is_sent && is_reply {
            let reply = answer.as_ref().map(|answer| answer.value().clone());
            let (answer, _) = answer::read(&self.ask, reply.map_err(Clone::clone));
            self.attempt.requests_to(self.place).requests.answered(self.ask, answer);
        }
        (answer, self.at)
    }
}

/// True if a server has answered with an error.
fn is_refusal(error: &NodeError) -> bool {
    matches!(error, NodeError::Refused(_) | NodeError::Unfit(_) | NodeError::Lapsed(_))
}

/// The outcome of a RELEASE at one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Released {
    /// The token held the lock there.
    Held,
    /// The token did not hold the lock there.
    NotHeld,
    /// The token did not hold the lock there, or an earlier request, which has no answer, has released it.
    Either,
    /// The node does not answer, or refuses, and is not asked again.
    No(NodeError),
    /// The node does not answer, or refuses for the moment: [`again`].
    NotYet(NodeError),
}

/// A RELEASE to one node.
pub(crate) struct Release {
    command: Cmd,
    /// End of its repetitions.
    until: Instant,
    _permit: Option<SemaphorePermit<'static>>,
    /// True if it was sent and has no answer: the node may have carried it out.
    pub(crate) was_lost: bool,
}

impl Release {
    /// A RELEASE that is repeated until the `lease` has ended. A node with an unanswered request may hang, and
    /// grant the lock when it goes on: there the RELEASE is repeated for longer.
    pub(crate) fn new(mut command: Cmd, last_word: LastWord, lease: Instant) -> Release {
        let mut permit = None;
        if last_word == LastWord::Final {
            command.arg("FINAL");
            permit = UNANSWERED.try_acquire().ok();
        }
        let until = if permit.is_some() { lease.later(LONGEST_HANG) } else { lease };
        Release { command, until, _permit: permit, was_lost: false }
    }
}

/// Releases at one node.
pub(crate) async fn release(node: &Arc<Node>, release: &mut Release, within: Duration) -> Released {
    let (mut was_lost, mut is_sent) = (release.was_lost, false);
    let answer = node.ask(&release.command, within, |again| {
        (was_lost, is_sent) = (was_lost || again, true);
        Ok(())
    });
    let outcome = match answer.await {
        Ok(answer) if *answer.value() == Value::Int(1) => Released::Held,
        Ok(_) if was_lost => Released::Either,
        Ok(_) => Released::NotHeld,
        Err(error) => {
            was_lost |= is_sent && !is_refusal(&error);
            Released::of(error)
        }
    };
    release.was_lost = was_lost;
    outcome
}

/// Releases at a node that has not answered, or has refused for the moment, again and again, and at once when it is
/// back.
pub(crate) async fn again(node: &Arc<Node>, command: &mut Release, within: Duration) -> Released {
    let mut pause = PAUSE;
    loop {
        match release(node, command, within).await {
            Released::NotYet(_) if clock::left(command.until) > pause => {
                let _ = timeout(pause, node.is_back()).await;
            }
            Released::NotYet(error) => return Released::No(error),
            outcome => return outcome,
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

impl Released {
    /// True if the node has nothing of this token, so that it counts for a majority.
    pub(crate) fn is_done(&self) -> bool {
        matches!(self, Released::Held | Released::NotHeld | Released::Either)
    }

    /// Decides whether to send a failed RELEASE again. A server that lacks the module now, or is a
    /// replica, was a node when it granted, and may be one again.
    fn of(error: NodeError) -> Released {
        match &error {
            NodeError::Refused(text) if !may_pass(text) => Released::No(error),
            _ => Released::NotYet(error),
        }
    }
}

fn given_up() -> NodeError {
    NodeError::Unreachable("the client gave up this attempt".to_owned())
}

/// The shortest time of a request that waits, and the first pause between two releases.
const PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// The time for which a RELEASE at a hung node outlasts the lease, and the number of those in this process.
const LONGEST_HANG: Duration = Duration::from_secs(600);
static UNANSWERED: Semaphore = Semaphore::const_new(1_000);
/// The time between two polls. If the turn comes meanwhile, the lock stays reserved and idle.
const POLL: Duration = Duration::from_millis(500);
