//! Locks without a guard: extended and released by their token, and inspected.

use std::sync::Arc;
use std::time::Duration;

use dlock_core::quorum::{Answer, Ask, LastWord, Obstacle, Rules, Sound};
#[cfg(feature = "operator")]
use dlock_core::quorum::{Hold, State};
#[cfg(feature = "operator")]
use dlock_core::words::Mode;
use dlock_core::words::{Fence, Instant};
use futures_util::future::join_all;
use redis::Cmd;
use tokio::sync::oneshot;

use crate::client::Client;
use crate::clock;
use crate::hold::guard::Lease;
#[cfg(feature = "operator")]
use crate::hold::{guard::Guard, keeper};
use crate::inspect::Inspection;
use crate::key::Key;
#[cfg(feature = "operator")]
use crate::options::LockOptions;
use crate::options::{check_key, check_ttl};
use crate::report::error::{Error, Loss, LossReason};
use crate::report::{NodeError, NodeState, Report};
use crate::token::Token;
use crate::traffic::answer;
use crate::traffic::attempt::{self, Released};
use crate::traffic::request;
use crate::traffic::under_way::UnderWay;
#[cfg(feature = "operator")]
use crate::traffic::{Traffic, request::Wanted};

impl Client {
    /// Extends a lock by its token and fence: the lease ends `ttl` from now; a lease that ends later stays.
    ///
    /// Extend a lock while it is valid. Later another client may have held it: a node that crashed and lost its
    /// newest data may still extend the former lease.
    ///
    /// The validity counts from this request. It is right only if the token has held the lock without a gap until
    /// now: send each extension before the previous one ends.
    ///
    /// # Errors
    /// [`Error::Lost`] when the token does not hold the lock at a majority of the nodes; [`Error::Refused`] when too
    /// many nodes refuse for good. [`Error::NoQuorum`] when too few answer.
    pub async fn extend(
        &self,
        key: impl Into<Key>,
        token: &Token,
        fence: u64,
        ttl: Duration,
    ) -> Result<Lease, Error> {
        let key = &key.into();
        check_key(key)?;
        check_ttl(ttl)?;
        let (end, _) = self.extend_all(key, token, fence, ttl).await?;
        Ok(Lease { key: key.clone(), token: *token, fence, valid_for: clock::left(end) })
    }

    /// Sends an EXTEND to all nodes. Returns the end of the validity, and the answers. A ballot would give the same
    /// result: each node gets one request, all at the same time and with the same fence.
    async fn extend_all(
        &self,
        key: &Key,
        token: &Token,
        fence: u64,
        ttl: Duration,
    ) -> Result<(Instant, Vec<Answer>), Error> {
        let (sent, ttl_ms, ask) =
            (clock::now(), clock::millis(ttl), Ask::Extend { fence: Fence(fence) });
        let command = request::extend(key, token.as_str().as_bytes(), ttl_ms, Fence(fence));
        let nodes = self.ask_all(&ask, &command, self.shared.timeout(ttl), |_| false).await;
        let answers: Vec<Answer> = nodes.iter().map(|(answer, _)| *answer).collect();
        let extended = answers.iter().filter(|answer| **answer == Answer::Extended).count();
        self.need_majority(key, fence, &nodes, extended).map_err(|error| match error {
            Error::Lost(_) => error,
            error => self.too_long(key, ttl, &nodes).unwrap_or(error),
        })?;
        Ok((Sound.ends(sent, ttl_ms), answers))
    }

    /// Releases a lock by its token. Returns true if the token held the lock at any node, as soon as that is
    /// known and a majority has answered; the rest goes on in the background. A node that refuses for the
    /// moment is asked again for one node time-out. The lock is released even if the future is dropped at
    /// once.
    ///
    /// # Errors
    /// [`Error::NoQuorum`] when no majority of the nodes answers; [`Error::Refused`] when too many refuse for good.
    pub fn release<K: Into<Key>>(
        &self,
        key: K,
        token: &Token,
    ) -> impl Future<Output = Result<bool, Error>> + Send + use<K> {
        let (client, key, token) = (self.clone(), key.into(), *token);
        let checked = check_key(&key);
        let (sender, done) = oneshot::channel();
        if checked.is_ok() {
            self.shared.background.spawn(async move {
                let _ = sender.send(client.release_everywhere(&key, &token).await);
            });
        }
        async move {
            checked?;
            done.await.unwrap_or_else(|_| Err(Error::Usage(RUNTIME.to_owned())))
        }
    }

    async fn release_everywhere(&self, key: &Key, token: &Token) -> Result<bool, Error> {
        let within = self.shared.timeout(Duration::MAX);
        let until = clock::now().later(within);
        let mut asked = UnderWay::new();
        for (place, node) in self.shared.nodes.iter().map(Arc::clone).enumerate() {
            // The length of the lease is not known here.
            let command = request::release(key, token.as_str().as_bytes());
            let mut release = attempt::Release::new(command, LastWord::Plain, until);
            asked.push(async move { (place, attempt::again(&node, &mut release, within).await) });
        }
        let (mut answered, mut held) = (0, false);
        let mut states = vec![(Answer::Silent, NodeState::NotAsked); self.size()];
        while let Some((place, outcome)) = asked.next().await {
            // A request whose answer was lost may have released it.
            held |= matches!(outcome, Released::Held | Released::Either);
            answered += usize::from(outcome.is_done());
            states[place] = match outcome {
                Released::No(error) | Released::NotYet(error) => {
                    answer::read(&Ask::Release, Err(error))
                }
                _ => (Answer::Answered, NodeState::Answers),
            };
            if held && answered >= self.shared.majority() {
                let rest = async move { while asked.next().await.is_some() {} };
                self.shared.background.spawn(rest);
                return Ok(true);
            }
        }
        if answered >= self.shared.majority() {
            return Ok(held);
        }
        Err(self.no_quorum(key, &states))
    }

    /// Returns each node's report about a lock; `None` where the lock is free.
    ///
    /// # Errors
    /// Fails when the key is empty.
    pub async fn inspect(
        &self,
        key: impl Into<Key>,
    ) -> Result<Vec<(String, Result<Option<Inspection>, NodeError>)>, Error> {
        let key = &key.into();
        check_key(key)?;
        let within = self.shared.timeout(Duration::MAX);
        let mut command = redis::cmd("DLOCK.INSPECT");
        command.arg(key.as_bytes());
        let asked = self.shared.nodes.iter().map(async |node| {
            let reply = node.counted(node.ask(&command, within, |_| Ok(())).await);
            let inspected = reply.and_then(|reply| Ok(Inspection::read(&reply)?));
            (node.name().to_owned(), inspected)
        });
        Ok(join_all(asked).await)
    }

    /// Fails unless the nodes that agree are a majority: either the lock is lost, or too few nodes answer.
    fn need_majority(
        &self,
        key: &Key,
        fence: u64,
        nodes: &[(Answer, NodeState)],
        agree: usize,
    ) -> Result<(), Error> {
        let majority = self.shared.majority();
        if agree >= majority {
            return Ok(());
        }
        if against(nodes) > self.size() - majority {
            let why = LossReason::Ended { nodes: self.reports(nodes) };
            return Err(Loss { key: key.clone(), fence, why }.into());
        }
        Err(self.no_quorum(key, nodes))
    }

    /// The error if a majority would extend the lease, were it not too long for some of them.
    fn too_long(&self, key: &Key, ttl: Duration, nodes: &[(Answer, NodeState)]) -> Option<Error> {
        let limits = nodes.iter().filter_map(|(answer, _)| match answer {
            Answer::Extended => Some(u64::MAX),
            Answer::TooLong(limit) => Some(limit.0),
            _ => None,
        });
        let limits: Vec<u64> = limits.collect();
        let limit = limits.iter().min().filter(|_| limits.len() >= self.shared.majority())?;
        let (key, limit) = (key.clone(), Duration::from_millis(*limit));
        Some(Error::TooLong { key, ttl, limit, nodes: self.reports(nodes) })
    }

    /// The error without a majority: too many nodes refuse for good, or too few answer.
    fn no_quorum(&self, key: &Key, nodes: &[(Answer, NodeState)]) -> Error {
        let never = |answer: &Answer| *answer == Answer::Refused(Obstacle::Never);
        let never = nodes.iter().filter(|(answer, _)| never(answer)).count();
        let (key, needed, nodes) = (key.clone(), self.shared.majority(), self.reports(nodes));
        if self.size() - never < needed {
            return Error::Refused { key, nodes };
        }
        Error::NoQuorum { key, needed, nodes }
    }

    fn reports(&self, nodes: &[(Answer, NodeState)]) -> Vec<Report> {
        self.shared.reports(nodes.iter().map(|(_, state)| state.clone()))
    }

    /// Asks all nodes at the same time, and returns as soon as their answers are enough.
    async fn ask_all(
        &self,
        ask: &Ask,
        command: &Cmd,
        within: Duration,
        are_enough: impl Fn(&[(Answer, NodeState)]) -> bool,
    ) -> Vec<(Answer, NodeState)> {
        let mut answers = vec![(Answer::Silent, NodeState::NotAsked); self.size()];
        let mut asked = UnderWay::new();
        for (place, node) in self.shared.nodes.iter().map(Arc::clone).enumerate() {
            let command = command.clone();
            asked.push(async move {
                (place, node.counted(node.ask(&command, within, |_| Ok(())).await))
            });
        }
        while !are_enough(&answers)
            && let Some((place, reply)) = asked.next().await
        {
            answers[place] = answer::read(ask, reply);
        }
        answers
    }
}

/// Locks that one process of a program hands over to the next one.
#[cfg(feature = "operator")]
impl Client {
    /// Takes over a lock that an earlier process has handed over. Asks each node to extend the lease by its fence, to
    /// at least `valid_for` from now. The lock is held for one lease, unless its guard extends it.
    ///
    /// # Errors
    /// [`Error::Lost`] when the token does not hold the lock at a majority of the nodes; [`Error::NoQuorum`] when too
    /// few nodes answer.
    pub async fn take_over(&self, lease: Lease, mode: Mode) -> Result<Guard, Error> {
        let Lease { key, token, fence, valid_for } = lease;
        check_key(&key)?;
        let options = LockOptions { ttl: valid_for, mode, renew: false, ..LockOptions::default() };
        let wanted = Arc::new(Wanted::new(key.clone(), options));
        let (sent, ttl) = (clock::now(), clock::millis(valid_for));
        let (_, answers) = self.extend_all(&key, &token, fence, valid_for).await?;
        let hold = Hold::taken_over(Sound, (Fence(fence), ttl), (sent, clock::now()), &answers);
        let State::Held(claim) = hold.state() else {
            return Err(Loss { key, fence, why: LossReason::Expired }.into());
        };
        let traffic = Traffic::taken_over(Arc::clone(&self.shared), wanted, token);
        Ok(keeper::start(hold, traffic, claim))
    }

    /// True if the token holds the lock at a majority of the nodes.
    ///
    /// # Errors
    /// [`Error::NoQuorum`] when too few nodes answer.
    pub async fn is_held_by(&self, key: &Key, token: &Token) -> Result<bool, Error> {
        let holding = |nodes: &[(Answer, NodeState)]| {
            nodes.iter().filter(|(answer, _)| matches!(answer, Answer::Granted(_))).count()
        };
        let majority = self.shared.majority();
        let decide = |nodes: &[(Answer, NodeState)]| {
            holding(nodes) >= majority || against(nodes) > self.size() - majority
        };
        let mut command = redis::cmd("DLOCK.CHECK");
        command.arg(key.as_bytes()).arg(token.as_str());
        // The reply to CHECK has the form of ACQUIRE's: a fence, or null.
        let ask = Ask::Acquire { fence: None, wait: None };
        let within = self.shared.timeout(Duration::MAX);
        let nodes = self.ask_all(&ask, &command, within, decide).await;
        match self.need_majority(key, 0, &nodes, holding(&nodes)) {
            Ok(()) => Ok(true),
            Err(Error::Lost(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// The number of nodes at which the token does not hold the lock.
fn against(nodes: &[(Answer, NodeState)]) -> usize {
    nodes.iter().filter(|(answer, _)| matches!(answer, Answer::Gone | Answer::Denied)).count()
}

const RUNTIME: &str = "the runtime has ended";
