//! One node: its connections, and requests that end in time.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use dlock_core::words::Instant;
use redis::{Cmd, Value};
use tokio::time::timeout;
use tracing::debug;

use crate::clock;
use crate::key::Key;
use crate::reach::identity::Identities;
use crate::reach::route::{Lines, Route};
use crate::reach::wire::Wire;
use crate::report::{NodeError, NodeState};

/// A node: a server, a primary behind Sentinels, or a Redis Cluster.
pub struct Node {
    name: String,
    place: usize,
    /// For commands without a time-out of their own.
    pub(crate) timeout: Duration,
    identities: Arc<Identities>,
    /// It did not answer the last request.
    suspect: AtomicBool,
    /// When its quarantine ends, on [`clock::now`], as the node said; zero if it is in none.
    quarantined: AtomicU64,
    lines: Lines,
}

/// What a node has answered. It is worth what [`counted`](Node::counted) says when it is used.
pub(crate) struct Answered {
    value: Value,
    /// How often its place had been taken by another server when the one that answers had it.
    tenure: u64,
}

impl Answered {
    /// Whether it is a no to somebody who has waited.
    pub(crate) fn is_no(&self) -> bool {
        self.value == Value::Nil
    }
}

impl Node {
    pub(crate) fn new(
        name: String,
        place: usize,
        timeout: Duration,
        identities: Arc<Identities>,
    ) -> Node {
        let lines = Lines::new(&identities, place, timeout);
        let (suspect, quarantined) = (AtomicBool::default(), AtomicU64::default());
        Node { name, place, timeout, identities, suspect, quarantined, lines }
    }

    /// Its address, without secrets.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Sends any command, and waits for the answer for as long as a node may take. In a cluster a
    /// command of the module goes to the server that has its key, and any other to some server.
    ///
    /// # Errors
    /// When there is no answer, or when it is an error of the server.
    pub async fn send(self: &Arc<Self>, command: &Cmd) -> Result<Value, NodeError> {
        // Nobody knows whether it may be sent twice.
        self.counted(self.call(Route::of(command), command, self.timeout, 1, |_, _| Ok(())).await)
    }

    /// The same for a command without a key, which concerns the server that has this one.
    ///
    /// # Errors
    /// As [`send`](Node::send).
    pub async fn send_where(
        self: &Arc<Self>,
        key: &Key,
        command: &Cmd,
    ) -> Result<Value, NodeError> {
        let route = Route::to(key.as_bytes());
        self.counted(self.call(route, command, self.timeout, 1, |_, _| Ok(())).await)
    }

    /// Sends a command that may arrive twice: if the connection breaks, it is sent over another. `enter` is
    /// told each connection before it is used, and whether nobody has answered over the one before: it may
    /// arrive there later.
    pub(crate) async fn ask(
        self: &Arc<Self>,
        command: &Cmd,
        within: Duration,
        enter: impl FnMut(&Wire, bool) -> Result<(), NodeError>,
    ) -> Result<Answered, NodeError> {
        self.call(Route::of(command), command, within, 2, enter).await
    }

    /// Sends a command of which it must be known, once it is answered, that none is on its way.
    pub(crate) async fn ask_once(
        self: &Arc<Self>,
        command: &Cmd,
        within: Duration,
    ) -> Result<Answered, NodeError> {
        self.call(Route::of(command), command, within, 1, |_, _| Ok(())).await
    }

    async fn call(
        self: &Arc<Self>,
        mut route: Route,
        command: &Cmd,
        within: Duration,
        tries: usize,
        mut enter: impl FnMut(&Wire, bool) -> Result<(), NodeError>,
    ) -> Result<Answered, NodeError> {
        let mut used: Option<Wire> = None;
        let answer = timeout(within, async {
            let (mut left, mut again) = (tries, false);
            loop {
                let wire = self.lines.wire(&mut route).await?;
                enter(&wire, again)?;
                used = Some(wire.clone());
                let answer = route.send(&wire, command).await;
                // It has answered: the silence of others is not its own.
                used = None;
                again = false;
                if self.lines.goes_on(&mut route, &wire, &answer).await {
                    continue;
                }
                left -= 1;
                match answer {
                    Err(NodeError::Unreachable(_)) if left > 0 => again = true,
                    answer => return answered(&wire, answer),
                }
            }
        });
        let answer = answer.await.unwrap_or_else(|_| {
            if let Some(wire) = &used {
                debug!(node = %self.name, ?within, "no answer in time");
                wire.retire();
                self.lines.mend(wire);
            }
            Err(self.lines.late(&route, used.is_some(), within))
        });
        let answer = self.lines.heard(answer);
        self.hear(&answer);
        answer
    }

    /// Sends a command over a connection that was used before, be it retired or not.
    pub(crate) async fn send_over(
        &self,
        wire: &Wire,
        command: &Cmd,
        within: Duration,
    ) -> Result<Value, NodeError> {
        let answer = timeout(within, wire.send(command)).await.unwrap_or_else(|_| {
            wire.retire();
            self.lines.mend(wire);
            Err(NodeError::TimedOut(within))
        });
        self.hear(&answer);
        answer
    }

    /// Remembers whether the node answers.
    fn hear<T>(&self, answer: &Result<T, NodeError>) {
        let silent = matches!(
            answer,
            Err(NodeError::Unreachable(_) | NodeError::TimedOut(_) | NodeError::Lapsed(_))
        );
        self.suspect.store(silent, Ordering::Relaxed);
    }

    /// It does not answer, as far as is known.
    pub(crate) fn suspect(&self) {
        self.suspect.store(true, Ordering::Relaxed);
    }

    /// Remembers what it said of a lock.
    pub(crate) fn note(&self, state: &NodeState) {
        let until = match state {
            NodeState::Quarantine(left) => clock::later(clock::now(), *left),
            NodeState::Granted(_) => Instant(0),
            _ => return,
        };
        self.quarantined.store(until.0, Ordering::Relaxed);
    }

    /// Whether it did not answer the last time, or is in quarantine.
    pub(crate) fn is_suspect(&self) -> bool {
        self.suspect.load(Ordering::Relaxed) || !self.quarantine().is_zero()
    }

    /// For how much longer it is in quarantine, as far as is known.
    pub(crate) fn quarantine(&self) -> Duration {
        clock::left(Instant(self.quarantined.load(Ordering::Relaxed)))
    }

    /// Sends a command that waits at the node, over a connection of its own. Dropping this future closes
    /// the connection. The node ends the wait before `limit`. `again` is told when the command is sent once
    /// more though the first may yet arrive.
    pub(crate) async fn wait(
        self: &Arc<Self>,
        command: &Cmd,
        limit: Duration,
        again: impl Fn(),
    ) -> Result<Answered, NodeError> {
        let mut route = Route::of(command);
        let mut strayed = false;
        loop {
            let line = self.lines.line(&route).await?;
            let pooled = line.pop_idle();
            let fresh = pooled.is_none();
            let wire = match pooled {
                Some(wire) => wire,
                None => match line.connect().await {
                    Ok(wire) => wire,
                    Err(error) if self.lines.goes_round(&line, &mut route, &error).await => {
                        continue;
                    }
                    Err(error) => return self.lines.heard(Err(error)),
                },
            };
            let Ok(answer) = timeout(limit, route.send(&wire, command)).await else {
                return Err(NodeError::TimedOut(limit));
            };
            if self.lines.goes_on(&mut route, &wire, &answer).await {
                self.pool(wire);
                continue;
            }
            match answer {
                // Where it waited there is no queue any more, so it goes to the one that there is.
                Err(NodeError::Unreachable(_)) if wire.is_astray() && !(fresh && strayed) => {
                    strayed |= fresh;
                }
                Err(NodeError::Unreachable(_)) if !fresh => again(),
                answer => {
                    let answer = answered(&wire, answer);
                    self.pool(wire);
                    return self.lines.heard(answer);
                }
            }
        }
    }

    /// Whether there is an idle connection for a request that waits, as far as is known.
    pub(crate) fn has_idle(&self) -> bool {
        self.lines.has_idle()
    }

    /// Makes an idle connection for a request that waits and goes where this command goes, if there is
    /// none.
    pub(crate) async fn warm_up(&self, command: &Cmd) {
        if let Ok(line) = self.lines.line(&Route::of(command)).await {
            line.warm_up().await;
        }
    }

    /// The connection that requests share. It is made if there is none.
    pub(crate) async fn wire(self: &Arc<Self>) -> Result<Wire, NodeError> {
        self.lines.wire(&mut Route::default()).await
    }

    /// What it has answered, if the server that did still has its place. If not, it may have another one by
    /// now, and must not be counted twice.
    pub(crate) fn counted(&self, answer: Result<Answered, NodeError>) -> Result<Value, NodeError> {
        let Answered { value, tenure } = answer?;
        if tenure == self.changes() {
            return Ok(value);
        }
        Err(NodeError::Unreachable("another server has its place by now".to_owned()))
    }

    /// How often another server has taken its place. The grants of the former server are gone then.
    pub(crate) fn changes(&self) -> u64 {
        self.identities.changes(self.place)
    }

    /// How often the connection to it has come back.
    pub(crate) fn returns(&self) -> u64 {
        self.identities.returns(self.place)
    }

    /// Closes what is not in use.
    pub(crate) fn hang_up(&self) {
        self.lines.hang_up();
    }

    /// Keeps a connection that does not wait any more.
    pub(crate) fn pool(&self, wire: Wire) {
        self.lines.pool(wire);
    }
}

fn answered(wire: &Wire, answer: Result<Value, NodeError>) -> Result<Answered, NodeError> {
    answer.map(|value| Answered { value, tenure: wire.tenure() })
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node").field("name", &self.name).finish_non_exhaustive()
    }
}
