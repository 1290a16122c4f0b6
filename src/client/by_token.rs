//! Locks without a guard: extended and released by their token, inspected and broken.

use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "operator")]
use dlock_core::quorum::attempts::{self, Agreed, Found};
use dlock_core::quorum::{Answer, Ask, Rules, Sound};
use dlock_core::words::{Fence, Millis};
#[cfg(feature = "operator")]
use dlock_core::{who, words::Mode};
use futures_util::future::join_all;
use redis::{Cmd, Value};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};

use crate::acquire::lock::{check_key, check_ttl};
#[cfg(feature = "operator")]
use crate::caller;
use crate::client::Client;
use crate::clock;
use crate::hold::guard::Lease;
use crate::inspect::Inspection;
use crate::key::Key;
use crate::reach::node::{Answered, Node};
use crate::report::code::may_pass;
#[cfg(feature = "operator")]
use crate::report::code::{TOO_MANY_FINALS, code};
use crate::report::error::{Error, Loss, LossReason};
use crate::report::{NodeError, NodeState, Report};
use crate::token::Token;
use crate::traffic::answer;
use crate::traffic::request;
use crate::traffic::under_way::UnderWay;

impl Client {
    /// Extends a lock by its token: the lease ends `ttl` from now. Without a fence the client asks the nodes
    /// for it first.
    ///
    /// A lease that has longer to run becomes shorter by this. Such a request can arrive late, over a broken
    /// connection, and shorten a lease that was extended after it; renewals of a guard never shorten a lease.
    ///
    /// # Errors
    /// [`Error::Lost`] when the token does not hold the lock at a majority of the nodes.
    pub async fn extend(
        &self,
        key: impl Into<Key>,
        token: &Token,
        fence: Option<u64>,
        ttl: Duration,
    ) -> Result<Lease, Error> {
        let key = &key.into();
        check_key(key)?;
        check_ttl(ttl)?;
        let name = token.as_str().as_bytes();
        let fence = match fence {
            Some(fence) => fence,
            None => self.fence(key, name, self.shared.timeout(ttl)).await?,
        };
        let command = request::extend(key, name, clock::millis(ttl), Some(Fence(fence)));
        let valid_for = self.extend_by(&command, key, fence, ttl).await?;
        Ok(Lease { key: key.clone(), token: *token, fence, valid_for })
    }

    /// Sends an EXTEND to all nodes. Returns the time for which the lock is valid. A ballot would say the same: each
    /// node gets one request, all at the same time and with the same fence.
    async fn extend_by(
        &self,
        command: &Cmd,
        key: &Key,
        fence: u64,
        ttl: Duration,
    ) -> Result<Duration, Error> {
        let sent = clock::now();
        let ask = Ask::Extend { fence: Some(Fence(fence)) };
        let nodes = self.ask_all(&ask, command, self.shared.timeout(ttl)).await;
        let extended = nodes.iter().filter(|(answer, _)| *answer == Answer::Extended).count();
        self.check_length(key, ttl, &nodes)?;
        self.need_majority(key, fence, &nodes, extended)?;
        let drift = Duration::from_micros(Sound.drift(clock::millis(ttl)));
        Ok(clock::left(sent.later(ttl.saturating_sub(drift))))
    }

    /// Releases a lock by its token. Returns true if the token held the lock at any node, as soon as that is
    /// known and a majority has answered; the rest goes on in the background. A node that refuses for the
    /// moment is asked again for one node time-out. The lock is released even if the future is dropped at
    /// once.
    ///
    /// # Errors
    /// [`Error::NoQuorum`] when no majority of the nodes answers.
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
        let command = Arc::new(request::release(key, token.as_str().as_bytes()));
        let mut asked = UnderWay::new();
        for (place, node) in self.shared.nodes.iter().map(Arc::clone).enumerate() {
            let command = Arc::clone(&command);
            asked.push(async move {
                let reply = release_at(&node, &command, within).await;
                (place, node.counted(reply))
            });
        }
        let (mut answered, mut held) = (0, false);
        let mut states = vec![(Answer::Silent, NodeState::NotAsked); self.size()];
        while let Some((place, reply)) = asked.next().await {
            held |= reply == Ok(Value::Int(1));
            answered += usize::from(reply.is_ok());
            states[place] = answer::read(&Ask::Release { is_final: false }, reply);
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
        Ok(self.named(self.inspections(key).await.into_iter()))
    }

    async fn inspections(&self, key: &Key) -> Vec<Result<Option<Inspection>, NodeError>> {
        let within = self.shared.timeout(Duration::MAX);
        let replies = self.send_all(redis::cmd("DLOCK.INSPECT").arg(key.as_bytes()), within).await;
        replies.into_iter().map(|reply| Ok(Inspection::read(&reply?)?)).collect()
    }

    /// Ends all leases of a lock on all nodes, or only the lease of this token. Returns the number of leases
    /// that each node ended. A guard notices at its next renewal, after a third of its lease at the latest.
    ///
    /// # Errors
    /// Fails when the key is empty.
    pub async fn break_lock(
        &self,
        key: impl Into<Key>,
        token: Option<&Token>,
    ) -> Result<Vec<(String, Result<u64, NodeError>)>, Error> {
        let key = &key.into();
        check_key(key)?;
        let mut command = redis::cmd("DLOCK.BREAK");
        command.arg(key.as_bytes());
        if let Some(token) = token {
            command.arg(token.as_str());
        }
        let within = self.shared.timeout(Duration::MAX);
        let replies = self.send_all(&command, within).await;
        Ok(self.named(replies.into_iter().map(|reply| match reply? {
            Value::Int(ended) => Ok(u64::try_from(ended).unwrap_or(0)),
            other => Err(NodeError::Refused(format!("an unexpected reply: {other:?}"))),
        })))
    }

    /// Asks for the fence that a majority of the nodes has for this token.
    async fn fence(&self, key: &Key, name: &[u8], within: Duration) -> Result<u64, Error> {
        let mut command = redis::cmd("DLOCK.CHECK");
        command.arg(key.as_bytes()).arg(name);
        // CHECK is answered as ACQUIRE is: with a fence, or not.
        let ask = Ask::Acquire { fence: None, wait: None };
        let mut nodes = self.ask_all(&ask, &command, within).await;
        for (_, state) in nodes.iter_mut().filter(|(_, state)| *state == NodeState::Held) {
            *state = NodeState::Gone;
        }
        let fences = nodes.iter().filter_map(|(answer, _)| match answer {
            Answer::Granted(fence) => Some(fence.0),
            _ => None,
        });
        // Two numbers cannot both have a majority.
        let votes = |fence: u64| fences.clone().filter(|other| *other == fence).count();
        let most = fences.clone().max_by_key(|fence| votes(*fence)).unwrap_or(0);
        self.need_majority(key, most, &nodes, votes(most))?;
        Ok(most)
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
        let gone = |answer: &Answer| matches!(answer, Answer::Gone | Answer::Denied);
        let against = nodes.iter().filter(|(answer, _)| gone(answer)).count();
        if against > self.size() - majority {
            let why = LossReason::Ended { nodes: self.reports(nodes) };
            return Err(Loss { key: key.clone(), fence, why }.into());
        }
        Err(self.no_quorum(key, nodes))
    }

    /// Fails if the lease is longer than the longest one that a majority of the nodes grants. A node that refuses
    /// for another reason grants none.
    fn check_length(
        &self,
        key: &Key,
        ttl: Duration,
        nodes: &[(Answer, NodeState)],
    ) -> Result<(), Error> {
        let limit = |answer| match answer {
            Answer::Extended | Answer::Gone => Millis(u64::MAX),
            Answer::TooLong(limit) => limit,
            _ => Millis(0),
        };
        let limits: Vec<Millis> = nodes.iter().map(|(answer, _)| limit(*answer)).collect();
        let limit = Sound.limit(&limits, self.shared.majority()).unwrap_or_default();
        if limit.0 == 0 || clock::millis(ttl) <= limit {
            return Ok(());
        }
        let (key, limit) = (key.clone(), Duration::from_millis(limit.0));
        Err(Error::TooLong { key, ttl, limit, nodes: self.reports(nodes) })
    }

    fn no_quorum(&self, key: &Key, nodes: &[(Answer, NodeState)]) -> Error {
        let (needed, nodes) = (self.shared.majority(), self.reports(nodes));
        Error::NoQuorum { key: key.clone(), needed, nodes }
    }

    fn reports(&self, nodes: &[(Answer, NodeState)]) -> Vec<Report> {
        let named = self.shared.nodes.iter().zip(nodes);
        named
            .map(|(node, (_, state))| Report { node: node.name().to_owned(), state: state.clone() })
            .collect()
    }

    async fn ask_all(
        &self,
        ask: &Ask,
        command: &Cmd,
        within: Duration,
    ) -> Vec<(Answer, NodeState)> {
        let replies = self.send_all(command, within).await;
        replies.into_iter().map(|reply| answer::read(ask, reply)).collect()
    }

    async fn send_all(&self, command: &Cmd, within: Duration) -> Vec<Result<Value, NodeError>> {
        let asked = self.shared.nodes.iter().map(|node| node.ask(command, within, |_, _| Ok(())));
        let replies = join_all(asked).await;
        self.shared.nodes.iter().zip(replies).map(|(node, reply)| node.counted(reply)).collect()
    }

    fn named<T>(&self, values: impl Iterator<Item = T>) -> Vec<(String, T)> {
        self.shared.nodes.iter().map(|node| node.name().to_owned()).zip(values).collect()
    }
}

/// Locks that another agent has taken for a caller, or this one before a restart. The rule is
/// `dlock_core::quorum::attempts`.
#[cfg(feature = "operator")]
impl Client {
    /// Finds the attempt that holds a caller's lock. If its claim may not have stood, this asks again for a short
    /// time.
    ///
    /// # Errors
    /// [`Error::NoQuorum`] when too few nodes answer to say so.
    pub async fn attempt_of(&self, key: &Key, caller: &[u8]) -> Result<Option<Attempt>, Error> {
        check_key(key)?;
        let mut looks = 0;
        loop {
            let inspections = self.inspections(key).await;
            let shown = inspections.iter().map(|node| node.as_ref().ok().map(Option::as_ref));
            let attempt = |suffix: &Token, fence| {
                let name: Box<[u8]> = caller::name(caller, suffix).into();
                let id = who::id(&name);
                let holds = |node: &&Inspection| node.holders.iter().any(|holder| holder.id == id);
                let node = inspections.iter().flatten().flatten().find(holds);
                let is_shared = node.is_some_and(|node| node.mode == Mode::Shared.name());
                let mode = if is_shared { Mode::Shared } else { Mode::Exclusive };
                Ok(Some(Attempt { name, mode, fence }))
            };
            match caller::find(caller, shown) {
                Found::Nothing => return Ok(None),
                Found::Stood { suffix, fence } => return attempt(&suffix, Some(fence)),
                Found::Unsettled(suffix) if looks == MOST_LOOKS => return attempt(&suffix, None),
                Found::Unsettled(_) => sleep(PAUSE).await,
                Found::Unknown => return Err(self.too_few_answers(key, &inspections)),
            }
            looks += 1;
        }
    }

    /// True if a majority of the nodes holds this attempt, with its claim's fence if that is given. A node that
    /// has forgotten a lease gives it again with a fence of its own.
    ///
    /// # Errors
    /// [`Error::NoQuorum`] when too few nodes answer to say so.
    pub async fn check_attempt(
        &self,
        key: &Key,
        name: &[u8],
        fence: Option<u64>,
    ) -> Result<bool, Error> {
        let mut command = redis::cmd("DLOCK.CHECK");
        command.arg(key.as_bytes()).arg(name);
        let replies = self.send_all(&command, self.shared.timeout(Duration::MAX)).await;
        let holds = |value: &Value| match value {
            Value::Int(held) => fence.is_none_or(|fence| held.cast_unsigned() == fence),
            _ => false,
        };
        self.agreed(key, &replies, holds)
    }

    /// Extends the lease of an attempt whose claim has stood: it ends `ttl` from now, or later if it does so
    /// anyway. Returns the time for which the lock is valid.
    ///
    /// # Errors
    /// Fails as [`extend`](Client::extend).
    pub async fn extend_attempt(
        &self,
        key: &Key,
        name: &[u8],
        fence: Fence,
        ttl: Duration,
    ) -> Result<Duration, Error> {
        let command = request::extend(key, name, clock::millis(ttl), Some(fence));
        self.extend_by(&command, key, fence.0, ttl).await
    }

    /// Releases an attempt for good, because the caller asks for that. Returns true if a majority of the nodes has
    /// released it. It is released even if the future is dropped at once.
    ///
    /// # Errors
    /// [`Error::NoQuorum`] when too few nodes answer to say so.
    pub fn release_attempt(
        &self,
        key: &Key,
        name: &[u8],
    ) -> impl Future<Output = Result<bool, Error>> + Send + use<> {
        let (client, key) = (self.clone(), key.clone());
        let plain = request::release(&key, name);
        let (sender, done) = oneshot::channel();
        self.shared.background.spawn(async move {
            let within = client.shared.timeout(Duration::MAX);
            let asked = client
                .shared
                .nodes
                .iter()
                .map(async |node| node.counted(release_for_good(node, &plain, within).await));
            let replies = join_all(asked).await;
            let released = |value: &Value| *value == Value::Int(1);
            let _ = sender.send(client.agreed(&key, &replies, released));
        });
        async move { done.await.unwrap_or_else(|_| Err(Error::Usage(RUNTIME.to_owned()))) }
    }

    /// Leaves the lock of an attempt done for this long, because the caller asks for that, with this outcome. Its claim
    /// has stood. Returns true if a majority of the nodes has the mark.
    ///
    /// # Errors
    /// [`Error::NoQuorum`] when too few nodes answer in time to say so: the lock may be done or not.
    pub async fn finish_attempt(
        &self,
        key: &Key,
        Attempt { name, fence, .. }: &Attempt,
        (time, outcome): (Duration, &[u8]),
    ) -> Result<bool, Error> {
        let Some(fence) = *fence else { return Ok(false) };
        let within = self.shared.timeout(Duration::MAX);
        // A claim, while which nobody else takes a mark away: it is enough for two answers of each node.
        let valid_for = self.extend_attempt(key, name, fence, within * 4).await;
        let valid_until = match valid_for {
            Ok(valid_for) => clock::now().later(valid_for),
            Err(Error::Lost(_)) => return Ok(false),
            Err(error) => return Err(error),
        };
        let mut command = request::release(key, name);
        command.arg("DONE").arg(clock::millis(time).0).arg("FENCE").arg(fence.0);
        if !outcome.is_empty() {
            command.arg("META").arg(outcome);
        }
        let asked = self.shared.nodes.iter().map(async |node| {
            let answer = release_at(node, &command, within).await;
            node.counted(answer)
        });
        let replies = join_all(asked).await;
        let is_done = self.agreed(key, &replies, |value| *value == Value::Int(1))?;
        // The marks of two moments prove nothing.
        if is_done && clock::left(valid_until).is_zero() {
            return Err(self.too_few_answers(key, &replies));
        }
        Ok(is_done)
    }

    /// Counts the nodes that say yes.
    fn agreed(
        &self,
        key: &Key,
        replies: &[Result<Value, NodeError>],
        is_yes: impl Fn(&Value) -> bool,
    ) -> Result<bool, Error> {
        let said: Vec<Option<bool>> =
            replies.iter().map(|reply| reply.as_ref().ok().map(&is_yes)).collect();
        match attempts::count(&Sound, &said) {
            Agreed::Yes => Ok(true),
            Agreed::No => Ok(false),
            Agreed::Open => Err(self.too_few_answers(key, replies)),
        }
    }

    fn too_few_answers<T>(&self, key: &Key, answers: &[Result<T, NodeError>]) -> Error {
        let states = answers.iter().map(|answer| match answer {
            Ok(_) => (Answer::Silent, NodeState::Answers),
            Err(error) => (Answer::Silent, error.clone().into()),
        });
        let error = self.no_quorum(key, &states.collect::<Vec<_>>());
        if error.may_pass() {
            return error;
        }
        Error::Refused { key: key.clone(), nodes: error.nodes().to_vec() }
    }
}

/// The attempt that holds a caller's lock.
#[cfg(feature = "operator")]
#[derive(Clone, Debug)]
pub struct Attempt {
    /// The token by which the nodes know it.
    pub name: Box<[u8]>,
    /// The mode in which it holds the lock. No agent serves semaphores.
    pub mode: Mode,
    /// The claim's fence; `None`: its maker has not said that the claim has stood, and may give it up.
    pub fence: Option<Fence>,
}

/// Asks a node to release, and asks again while it refuses for the moment. The length of the lease is not
/// known here, so this ends after `within`.
async fn release_at(
    node: &Arc<Node>,
    command: &Cmd,
    within: Duration,
) -> Result<Answered, NodeError> {
    let end = Instant::now() + within;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let reply = node.ask(command, left, |_, _| Ok(())).await;
        let passes = matches!(&reply, Err(NodeError::Refused(text)) if may_pass(text));
        if !passes || Instant::now() + PAUSE >= end {
            return reply;
        }
        sleep(PAUSE).await;
    }
}

/// Asks a node to release, and to refuse the token from now on: else a late request of its maker could take the lock once
/// more.
#[cfg(feature = "operator")]
async fn release_for_good(
    node: &Arc<Node>,
    plain: &Cmd,
    within: Duration,
) -> Result<Answered, NodeError> {
    let mut command = plain.clone();
    let answer = release_at(node, command.arg("FINAL"), within).await;
    if matches!(&answer, Err(NodeError::Refused(text)) if code(text) == TOO_MANY_FINALS) {
        return release_at(node, plain, within).await;
    }
    answer
}

const RUNTIME: &str = "the runtime has ended";
const PAUSE: Duration = Duration::from_millis(100);
/// Looks at an attempt whose claim may not have stood, after the first one.
#[cfg(feature = "operator")]
const MOST_LOOKS: usize = 2;
