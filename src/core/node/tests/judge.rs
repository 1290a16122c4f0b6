//! The contract, written once more and simply: short lists, no index. It gets all reports of a node, in order,
//! and objects to violations.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use crate::command::acquire::Acquire;
use crate::command::extend::Extend;
use crate::limits::MAX_PLACES;
use crate::lock::Holder;
use crate::node::host::{Ending, WaitOutcome};
use crate::simulated::{MemoryHost, Report, Value};
use crate::words::{ClientId, Fence, KeyBuf, Mode, WaiterId};

pub type Verdict = Result<(), TestCaseError>;

/// The command or event that caused the reports.
#[derive(Clone, Copy, Debug)]
pub enum Cause<'a> {
    Acquire(&'a KeyBuf, &'a Acquire<'a>),
    Release(&'a KeyBuf, &'a [u8]),
    Extend(&'a KeyBuf, &'a Extend<'a>),
    Break(&'a KeyBuf, Option<&'a [u8]>),
    Sweep {
        may_write: bool,
    },
    Removal,
    Follow,
    /// Nothing that may cause a report.
    Quiet,
}

#[derive(Clone, Debug)]
pub struct Hold {
    pub token: Box<[u8]>,
    pub mode: Mode,
    pub fence: Fence,
    pub client: ClientId,
    pub ephemeral: bool,
    pub meta: Box<[u8]>,
    /// The earliest end, in microseconds.
    pub end: u64,
    /// The latest end: within a millisecond, unless it began again on a replica.
    pub latest: u64,
    pub since: u64,
    /// True if the waiter was away at the grant, and has not asked since.
    pub away: bool,
    /// True if this node made the grant, and has led ever since.
    pub bound: bool,
}

#[derive(Clone, Debug)]
pub struct Wait {
    pub id: WaiterId,
    pub token: Box<[u8]>,
    pub mode: Mode,
    pub ttl: u64,
    pub proposal: Option<Fence>,
    pub client: ClientId,
    pub since: u64,
    pub until: Option<u64>,
    /// The milliseconds that its place is kept.
    pub keep: Option<u64>,
    /// True if it has TURN.
    pub turn: bool,
    /// The earliest end of its place, after its request has ended.
    pub away: Option<u64>,
}

#[derive(Default)]
pub struct Judge {
    pub holds: BTreeMap<KeyBuf, Vec<Hold>>,
    pub queues: BTreeMap<KeyBuf, Vec<Wait>>,
    /// The largest fence ever handed out or given to a holder, by the key's name, in any database.
    pub highest: BTreeMap<Box<[u8]>, u64>,
    /// The keys of evicted locks, by name, and the time until which they are shut.
    pub shut: BTreeMap<Box<[u8]>, u64>,
    pub closed: BTreeSet<ClientId>,
    pub gone: BTreeSet<WaiterId>,
    /// The answers received and not yet taken.
    pub answers: Vec<(WaiterId, WaitOutcome)>,
    pub replaced: BTreeSet<WaiterId>,
    /// The waiters with grants in the next reports.
    pub served: BTreeSet<WaiterId>,
    /// The waiters that were told their turn just before a token asked again.
    pub told: BTreeSet<WaiterId>,
    pub granted: BTreeMap<WaiterId, Fence>,
    pub now: u64,
}

/// The number of places that may be kept here: never all of them. Shares have tests of their own.
pub const MOST_PLACES: usize = MAX_PLACES as usize / 2;

impl Judge {
    /// Takes the reports of a node during one operation.
    pub fn hear(
        &mut self,
        log: &[Report],
        cause: Cause<'_>,
        host: &MemoryHost,
        now: u64,
    ) -> Verdict {
        self.now = now;
        self.served.clear();
        for event in log {
            self.hear_one(event, cause, host)
                .map_err(|error| TestCaseError::fail(std::format!("{event:?}: {error}")))?;
        }
        prop_assert!(self.granted.is_empty(), "granted and not told: {:?}", self.granted);
        prop_assert!(self.replaced.is_empty(), "replaced and not told: {:?}", self.replaced);
        Ok(())
    }

    /// A waiter leaves, for any reason.
    pub fn leaves(&mut self, id: WaiterId) -> Option<Wait> {
        let mut left = None;
        for queue in self.queues.values_mut() {
            if let Some(at) = queue.iter().position(|wait| wait.id == id) {
                left = Some(queue.remove(at));
            }
        }
        self.queues.retain(|_, queue| !queue.is_empty());
        left
    }

    pub fn hold(&self, key: &KeyBuf, token: &[u8]) -> Option<&Hold> {
        self.held(key).iter().find(|hold| *hold.token == *token)
    }

    /// True if the grant ends with its connection, which has closed.
    pub fn has_closed(&self, hold: &Hold) -> bool {
        hold.bound && hold.ephemeral && self.closed.contains(&hold.client)
    }

    pub fn held(&self, key: &KeyBuf) -> &[Hold] {
        self.holds.get(key).map_or(&[], |holds| holds)
    }

    pub fn queue(&self, key: &KeyBuf) -> &[Wait] {
        self.queues.get(key).map_or(&[], |queue| queue)
    }

    /// True if one more may hold the lock beside the present holders.
    pub fn compatible(&self, key: &KeyBuf, mode: Mode) -> bool {
        let holds = self.held(key);
        let same = holds.iter().all(|hold| hold.mode.is_like(mode));
        if self.shut.get(&key.name).is_some_and(|end| self.now < *end) {
            return false;
        }
        match mode {
            Mode::Exclusive => holds.is_empty(),
            Mode::Shared => same,
            Mode::Limit(n) => same && holds.len() < usize::from(n),
        }
    }

    fn hear_one(&mut self, event: &Report, cause: Cause<'_>, host: &MemoryHost) -> Verdict {
        if let Cause::Quiet | Cause::Removal | Cause::Follow | Cause::Sweep { may_write: false } =
            cause
        {
            prop_assert!(matches!(event, Report::Answered(..)), "nothing may be written");
        }
        match event {
            Report::Granted { key, mode, holder, waited } => {
                self.hear_granted(key, *mode, holder, *waited, cause, host)
            }
            Report::Renewed { key, mode, holder } if matches!(cause, Cause::Extend(..)) => {
                self.hear_extended(key, *mode, holder, cause)
            }
            Report::Renewed { key, mode, holder } => self.hear_renewed(key, *mode, holder, cause),
            Report::Ended { key, token, why, held } => {
                self.hear_ended(key, token, *why, *held, cause)
            }
            Report::Done { .. } => {
                prop_assert!(false, "no client sends DONE here");
                Ok(())
            }
            Report::AllExpired(..) => {
                prop_assert!(false, "no crowd here is so large");
                Ok(())
            }
            Report::TextRemoved(..) => {
                prop_assert!(false, "a plain string is nothing to dlock");
                Ok(())
            }
            Report::Answered(id, answer) => self.hear_answer(*id, *answer, cause, host),
        }
    }

    fn hear_granted(
        &mut self,
        key: &KeyBuf,
        mode: Mode,
        holder: &Holder,
        waited: Option<u64>,
        cause: Cause<'_>,
        host: &MemoryHost,
    ) -> Verdict {
        let grant = holder.grant();
        prop_assert!(self.hold(key, grant.token).is_none(), "holds already");
        prop_assert!(self.compatible(key, mode), "excluded by {:?}", self.held(key));
        let highest = self.highest.entry(key.name.clone()).or_default();
        prop_assert!(grant.fence.0 > *highest, "not above {highest}");
        *highest = grant.fence.0;
        let hold = Hold {
            token: grant.token.into(),
            mode,
            fence: grant.fence,
            client: grant.client,
            ephemeral: grant.ephemeral,
            meta: grant.meta.into(),
            end: self.now + grant.lease.ttl.0 * 1000,
            latest: self.now + grant.lease.ttl.0 * 1000 + 999,
            since: self.now,
            away: grant.client == ClientId::AWAY,
            bound: true,
        };
        if let Some(waited) = waited {
            let Some(first) = self.take_first(key, grant.token, cause, host) else {
                return Err(TestCaseError::fail("no client waits"));
            };
            prop_assert_eq!(&*first.token, grant.token, "out of order");
            prop_assert_eq!(waited, self.now - first.since);
            self.check_turn(&first, &hold, asked(cause, key, grant.token).ok())?;
        } else {
            let ask = asked(cause, key, grant.token)?;
            prop_assert_eq!((ask.mode, ask.ttl, ask.turn), (mode, grant.lease.ttl, hold.away));
            prop_assert!(ask.fence <= Some(grant.fence), "below its proposal");
            let stands = |wait: &&Wait| !self.may_be_gone(key, wait, cause, host);
            let overtaken: Vec<&Wait> = self.queue(key).iter().filter(stands).collect();
            prop_assert!(overtaken.is_empty(), "overtakes {overtaken:?}");
        }
        let holds = self.holds.entry(key.clone()).or_default();
        holds.push(hold);
        holds.sort_by(|one, other| one.token.cmp(&other.token));
        // The number of permits follows the newest grant.
        holds.iter_mut().for_each(|hold| hold.mode = mode);
        Ok(())
    }

    fn hear_renewed(
        &mut self,
        key: &KeyBuf,
        mode: Mode,
        holder: &Holder,
        cause: Cause<'_>,
    ) -> Verdict {
        let grant = holder.grant();
        let now = self.now;
        let ask = asked(cause, key, grant.token)?;
        let hold = self.going_on(key, grant.token)?;
        prop_assert_eq!((hold.fence, hold.mode), (grant.fence, mode), "not the same grant");
        hold.end = hold.end.max(now + ask.ttl.0 * 1000);
        hold.latest = hold.latest.max(now + ask.ttl.0 * 1000 + 999);
        hold.client = grant.client;
        hold.ephemeral = grant.ephemeral;
        hold.meta = grant.meta.into();
        hold.away = hold.away && ask.turn;
        prop_assert_eq!(hold.away, grant.client == ClientId::AWAY);
        hold.bound = true;
        Ok(())
    }

    fn hear_extended(
        &mut self,
        key: &KeyBuf,
        mode: Mode,
        holder: &Holder,
        cause: Cause<'_>,
    ) -> Verdict {
        let grant = holder.grant();
        let Cause::Extend(at, ask) = cause else {
            return Err(TestCaseError::fail("no client has asked for that"));
        };
        prop_assert!(at == key && *ask.token == *grant.token);
        let now = self.now;
        let hold = self.going_on(key, grant.token)?;
        prop_assert!(grant.fence >= hold.fence, "extended below its fence");
        prop_assert_eq!(grant.fence, ask.fence.unwrap_or(hold.fence));
        prop_assert_eq!(mode, hold.mode);
        prop_assert!(!(hold.bound && hold.ephemeral) || hold.client == grant.client);
        (hold.client, hold.away) = (grant.client, false);
        hold.end = hold.end.max(now + ask.ttl.0 * 1000);
        hold.latest = hold.latest.max(now + ask.ttl.0 * 1000 + 999);
        hold.fence = grant.fence;
        let highest = self.highest.entry(key.name.clone()).or_default();
        *highest = grant.fence.0.max(*highest);
        Ok(())
    }

    fn hear_ended(
        &mut self,
        key: &KeyBuf,
        token: &[u8],
        why: Ending,
        held: u64,
        cause: Cause<'_>,
    ) -> Verdict {
        let Some(hold) = self.hold(key, token).cloned() else {
            return Err(TestCaseError::fail("ended, and does not hold"));
        };
        let rightly = match why {
            Ending::Released => matches!(cause, Cause::Release(at, by) if at == key && by == token),
            Ending::Broken => matches!(cause, Cause::Break(at, _) if at == key),
            Ending::Expired => hold.end <= self.now,
            Ending::Disconnected => self.has_closed(&hold),
        };
        prop_assert!(rightly, "no reason to end {hold:?} at {}", self.now);
        prop_assert_eq!(held, self.now - hold.since);
        let holds = self.holds.entry(key.clone()).or_default();
        holds.retain(|hold| *hold.token != *token);
        self.holds.retain(|_, holds| !holds.is_empty());
        Ok(())
    }

    fn hear_answer(
        &mut self,
        id: WaiterId,
        answer: WaitOutcome,
        cause: Cause<'_>,
        host: &MemoryHost,
    ) -> Verdict {
        prop_assert!(!self.gone.contains(&id), "answered, and is gone");
        self.answers.push((id, answer));
        if matches!(answer, WaitOutcome::Turn(_)) && self.told.remove(&id) {
            return Ok(());
        }
        if let WaitOutcome::Granted(fence) = answer {
            prop_assert_eq!(self.granted.remove(&id), Some(fence), "told of another grant");
            return Ok(());
        }
        if answer == WaitOutcome::Replaced {
            prop_assert!(self.replaced.remove(&id), "was not replaced");
            return Ok(());
        }
        let key = self.queues.iter().find(|(_, queue)| queue.iter().any(|wait| wait.id == id));
        let found = key.and_then(|(key, queue)| {
            Some((key.clone(), queue.iter().find(|wait| wait.id == id)?.clone()))
        });
        let Some((key, wait)) = found.filter(|(_, wait)| wait.away.is_none()) else {
            return Err(TestCaseError::fail("answered, and does not wait"));
        };
        let gone = |wait: &Wait| self.may_be_gone(&key, wait, cause, host);
        let in_line = self.is_in_line(&key, id, gone);
        let swept = matches!(cause, Cause::Sweep { .. });
        if matches!(answer, WaitOutcome::Turn(_)) || swept && answer == WaitOutcome::Denied {
            self.departs(id, self.now);
        } else {
            self.leaves(id);
        }
        let other_data = matches!(host.values.get(&key), Some(Value::Other));
        let rightly = match (answer, cause) {
            (WaitOutcome::Denied, Cause::Release(at, by)) if *at == key && *by == *wait.token => {
                true
            }
            (WaitOutcome::Denied, Cause::Sweep { .. }) => {
                wait.until.is_some_and(|end| end <= self.now)
            }
            (WaitOutcome::Turn(fence), _) => {
                let highest = self.highest.get(&key.name).copied().unwrap_or(0);
                let stays = self.queue(&key).iter().any(|wait| wait.id == id);
                wait.turn && in_line && stays && fence.0 >= highest
            }
            (WaitOutcome::Removed, cause) => matches!(cause, Cause::Removal) || other_data,
            (WaitOutcome::Demoted, Cause::Follow) => true,
            _ => false,
        };
        prop_assert!(rightly, "no reason to answer {wait:?} at {}", self.now);
        Ok(())
    }

    /// The hold of a token with a growing lease: it may not be over.
    fn going_on(&mut self, key: &KeyBuf, token: &[u8]) -> Result<&mut Hold, TestCaseError> {
        let now = self.now;
        let Some(hold) = self.hold_mut(key, token) else {
            return Err(TestCaseError::fail("longer, and does not hold"));
        };
        prop_assert!(now < hold.latest, "a lease that is over becomes longer");
        Ok(hold)
    }

    pub fn hold_mut(&mut self, key: &KeyBuf, token: &[u8]) -> Option<&mut Hold> {
        self.holds.get_mut(key)?.iter_mut().find(|hold| *hold.token == *token)
    }
}

/// The token's request at this key just now.
fn asked<'a>(
    cause: Cause<'a>,
    key: &KeyBuf,
    token: &[u8],
) -> Result<&'a Acquire<'a>, TestCaseError> {
    match cause {
        Cause::Acquire(at, ask) if at == key && ask.token == token => Ok(ask),
        _ => Err(TestCaseError::fail("no client asked")),
    }
}
