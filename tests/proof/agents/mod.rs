//! The tokens of an agent's attempts: two agents, one caller with one token, and everything that can go wrong between
//! them. Every order of events is searched.
//!
//! # The rule
//!
//! - **Tokens.** An attempt's token is the caller's and a random suffix, new for each attempt. META has the suffix.
//!   Only the agent that made a suffix sends ACQUIRE with it.
//! - **Promise.** Once its claim has stood, the agent may tell the nodes so: ACQUIRE again, with META that says that the
//!   claim has stood, and with which fence. From then on it gives the attempt up only if the caller asks. It need not
//!   wait with its answer for that, and a lock that is released soon needs no such message. Until then it may give the
//!   attempt up at any time, and does so if the caller is gone. Locks that end with a connection promise nothing.
//! - **Finding it.** An agent that remembers no attempt of its own asks all nodes by INSPECT, and judges by
//!   [`find`](dlock_core::quorum::attempts::find). What it remembers saves it the question, and no more: a no to that is no answer.
//! - **ACQUIRE.** An attempt of its own comes first. If that fails, it is given up by its suffix alone, and the agent
//!   looks: an attempt that has stood is joined; all others are somebody else's. To join is to send EXTEND … GT FENCE f
//!   with its token to all nodes, f being its claim's fence, and to count the answers as those of any ballot: validity
//!   is from the sending. So INSPECT need not tell how long a lease is, and no node counts that another claim may have
//!   counted meanwhile. The caller is told f.
//! - **EXTEND** does the same. If the attempt has not stood as far as nodes know, the answer is an error, not 0. Of an
//!   attempt of its own that a majority has not any more, the agent releases the rest.
//! - **CHECK** asks all nodes by CHECK: a majority with the claim's fence. Never from memory: another agent may have
//!   released the lock. An agent whose guard is still valid after the answers counts any fence: a node that has
//!   forgotten the lease, and was told it again, has one of its own.
//! - **RELEASE** also acts on an attempt that has not stood, if a majority shows it. RELEASE … FINAL goes to all nodes,
//!   or an ACQUIRE that is under way would take the lock again. The answer is 1 when a majority says 1, 0 when none
//!   can, else an error. A 0 to a request that was sent twice proves nothing. Of an attempt of its own, which it
//!   remembers, an agent sends it over the connections of the attempt's requests, after them; it is FINAL only where one of
//!   these was sent twice, or where the node has not answered that the claim has stood: that message may arrive later.
//! - **RELEASE … DONE** joins first, for a claim. Then it goes to all nodes, and the answer is 1 when a majority says 1 and
//!   that claim is still valid, 0 when none can, else an error. While the claim is valid nobody else has so many nodes that
//!   a mark may be taken away; after that the marks of two moments prove nothing. An attempt that has not stood is an
//!   error. Whoever asks again after a 1 gets 0, as nothing holds the lock any more; but the agent
//!   that said 1 remembers that for a while.
//!
//! What a caller must know, as with one node: it stops work when it asks for a RELEASE, with DONE or without. An ACQUIRE that was under way at
//! that time counts only if this is the one RELEASE and its answer is 0. Without an answer the token is not used again.
//!
//! # What is searched
//!
//! The attempts and the joins are the product's own [`Ballot`]s. Requests and answers take as long as they like, are
//! never delivered, or arrive twice. A lease is two ticks of time. A message of one request to one node does not
//! overtake an earlier one, unless it arrives again. Another caller takes and leaves nodes at any moment, and its claim
//! stands at once: its delays are searched by the [other model](crate::model). It takes a lock by AGAIN where a mark cannot
//! be a majority's. A node forgets a lease that a majority has besides, while nobody counts answers: else the majority
//! could be another one between two of them, and a no be wrong. The agent that holds the lock asks the node for it again,
//! with the claim's fence, and without the word that the claim has stood. Not searched: WAIT, shared locks,
//! the end of a mark, EXTEND without GT, five nodes, and clocks that run apart.

mod agent;
pub mod flaw;
pub mod node;
mod state;

use dlock_core::quorum::Claim;
use dlock_core::quorum::attempts::Shown;
use dlock_core::quorum::ballot::{Ballot, Outgoing};
use dlock_core::{Instant, Millis};
use stateright::{Model, Property};

use flaw::{Bent, Flaw};
use node::{Place, Say, What};

/// The space that a search covers.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The caller's requests, in the order in which they are made. Each may be made before the one before is answered.
    pub requests: Vec<Plan>,
    /// The flaw of the agents.
    pub flaw: Option<Flaw>,
    /// Up to which number the nodes have counted when it begins: all combinations.
    pub counted: u64,
    /// The number of ticks; a lease is two of them.
    pub ticks: u8,
    /// The number of grants to another caller.
    pub others: u8,
    /// The number of requests that may arrive twice.
    pub twice: u8,
    /// The number of restarts of agents.
    pub restarts: u8,
    /// The number of leases that nodes forget, of those that a majority has besides.
    pub forgets: u8,
    /// The number of requests by which agents repair that.
    pub repairs: u8,
    /// True if each request is made only once the one before is answered.
    pub in_turn: bool,
}

/// A request of the caller's.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The agent that is asked.
    pub agent: u8,
    /// The request.
    pub asks: Asks,
}

/// The command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asks {
    /// ACQUIRE, without WAIT.
    Acquire,
    /// EXTEND … GT.
    Extend,
    /// CHECK.
    Check,
    /// RELEASE.
    Release,
    /// RELEASE … DONE.
    Done,
}

impl Asks {
    /// True if the caller gives the lock up.
    fn gives_up(self) -> bool {
        matches!(self, Asks::Release | Asks::Done)
    }
}

/// The state of all nodes, requests and messages.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    now: u8,
    places: [Place; NODES],
    jobs: Vec<Job>,
    /// The messages to the nodes. Those of one job to one node arrive in this order, unless they arrive again.
    messages: Vec<Message>,
    replies: Vec<Reply>,
    others: u8,
    twice: u8,
    restarts: u8,
    forgets: u8,
    repairs: u8,
    /// The fences that callers were told, with the attempt; `None`: the other caller's.
    told: Vec<(Option<u8>, u64)>,
    /// The number of these when the other caller began.
    other_since: usize,
    /// The attempts that were released, says a RELEASE.
    released: u8,
    /// The attempts that were left done, says a RELEASE … DONE.
    done: u8,
    broken: Option<&'static str>,
}

/// An agent's work for one request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Job {
    phase: Phase,
    /// The number of fences that had been told when it began.
    before: usize,
    /// True if a RELEASE was under way at some time before its end.
    overlapped: bool,
    /// The attempts that a majority has held at a moment since it began.
    seen: u8,
    /// Until then the caller could rely on what it had been told before.
    relied: Option<Instant>,
    /// True while it acts on an attempt that the agent remembers, and has not looked for.
    remembers: bool,
    /// True after an attempt of its own.
    tried: bool,
    /// The claim of its own attempt, as long as the agent knows of it and has not given it up.
    stood: Option<u64>,
    /// True if the nodes are told that it has stood.
    marked: bool,
    /// The nodes at which a message of its own attempt may arrive once more, one bit each.
    twice: u8,
    /// The nodes that have not answered that it has stood, one bit each.
    unanswered: u8,
    /// The caller was told that this attempt holds until then.
    holds: Option<(u8, Instant)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Before,
    /// An attempt.
    Asking(Ballot<Bent>, Outgoing),
    /// The attempt's claim stands, and the caller has not been told.
    Standing(Claim),
    Looking([Look; NODES]),
    /// EXTEND of this attempt, with its fence.
    Joining(u8, u64, Ballot<Bent>),
    /// CHECK or RELEASE of this attempt, with its fence.
    Counting(u8, u64, [Option<bool>; NODES]),
    /// RELEASE … DONE of this attempt, by a claim that ends then.
    Finishing(u8, Instant, [Option<bool>; NODES]),
    Over(Told),
}

/// A node's answer to INSPECT, if there is one: the attempt that it shows, and the fence of its grant.
type Look = Option<Option<(Shown<u8>, u64)>>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Told {
    Yes,
    No,
    Error,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Message {
    job: usize,
    node: usize,
    /// The job whose messages to the node arrive in their order, this one among them.
    line: usize,
    /// True if it has arrived once.
    again: bool,
    /// The id of the request, while its reply counts.
    id: Option<u32>,
    suffix: u8,
    what: What,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Reply {
    job: usize,
    node: usize,
    id: u32,
    say: Say,
}

/// The steps from one state to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The caller makes its next request.
    Begin(usize),
    /// A message arrives, and perhaps it will arrive again.
    Arrive(usize, bool),
    /// A reply arrives.
    Hear(usize),
    /// The caller is told that it holds the lock.
    Tell(usize),
    /// The nodes are told that an attempt's claim has stood.
    Mark(usize),
    /// An agent's time is over, or its caller's connection.
    GiveUp(usize),
    /// An agent forgets everything.
    Restart(u8),
    /// A node forgets a lease.
    Forget(usize),
    /// The agent of an attempt asks a node for its lease again.
    Repair(usize, usize),
    /// Another caller takes a node.
    Grab(usize),
    /// The other caller leaves a node.
    Leave(usize),
    /// Time passes.
    Tick,
}

impl Model for Setting {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let side = self.counted + 1;
        let counters = |at: u64| [at % side, at / side % side, at / side / side];
        (0..side.pow(3)).map(|at| self.beginning(counters(at))).collect()
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let lost = [Asks::Release, Asks::Done]
            .into_iter()
            .any(|asks| state.is_over(asks, Told::Error, self));
        let next = state.jobs.iter().position(|job| job.phase == Phase::Before);
        let waits = |next: &usize| {
            let before = next.checked_sub(1).filter(|_| self.in_turn);
            before.is_some_and(|before| !matches!(state.jobs[before].phase, Phase::Over(_)))
        };
        actions.extend(next.filter(|next| !lost && !waits(next)).map(Action::Begin));
        for (at, message) in state.messages.iter().enumerate() {
            if state.is_next(at, message) {
                actions.push(Action::Arrive(at, false));
                if state.twice > 0 && message.what != What::Inspect && !state.is_withdrawn(message)
                {
                    actions.push(Action::Arrive(at, true));
                }
            }
        }
        actions.extend((0..state.replies.len()).map(Action::Hear));
        for (at, job) in state.jobs.iter().enumerate() {
            let marked = job.marked && self.flaw != Some(Flaw::GivesUpSettled);
            match job.phase {
                Phase::Before | Phase::Over(_) => {}
                Phase::Standing(_) if marked => actions.push(Action::Tell(at)),
                Phase::Standing(_) => actions.extend([Action::Tell(at), Action::GiveUp(at)]),
                _ => actions.push(Action::GiveUp(at)),
            }
            if job.stood.is_some() && !job.marked {
                actions.push(Action::Mark(at));
            }
            let lacks = |node: &usize| !state.places[*node].is_held_by(self.suffix(at));
            if state.repairs > 0 && self.keeps(job) {
                actions.extend((0..NODES).filter(lacks).map(|node| Action::Repair(at, node)));
            }
        }
        if state.forgets > 0 {
            actions.extend((0..NODES).filter(|node| state.can_forget(*node)).map(Action::Forget));
        }
        if state.restarts > 0 {
            actions.extend([Action::Restart(0), Action::Restart(1)]);
        }
        // With so many nodes the mark of any other cannot be a majority's.
        let taken = state.places.iter().filter(|place| place.is_others()).count();
        for (node, place) in state.places.iter().enumerate() {
            if place.holder.is_none()
                && (place.mark.is_none() || taken >= MAJORITY)
                && state.others > 0
            {
                actions.push(Action::Grab(node));
            } else if place.is_others() {
                actions.push(Action::Leave(node));
            }
        }
        if state.now < self.ticks {
            actions.push(Action::Tick);
        }
        // A search in depth takes the last one first: what can go wrong happens late, in an attempt that went well.
        actions.reverse();
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Begin(job) => self.begin(&mut state, job),
            Action::Arrive(at, again) => match state.arrive(at, again) {
                // Only a vote counts from a time.
                Some(reply) if matches!(reply.say, Say::Votes(_)) => state.replies.push(reply),
                Some(reply) => self.hear(&mut state, reply),
                None => {}
            },
            Action::Hear(at) => {
                let reply = state.replies.remove(at);
                self.hear(&mut state, reply);
            }
            Action::Tell(job) => {
                let Phase::Standing(claim) = state.jobs[job].phase else { return None };
                state.tell(job, self.suffix(job), claim.fence.0, Some(claim.until));
            }
            Action::Mark(job) => self.mark(&mut state, job),
            Action::GiveUp(job) => self.give_up(&mut state, job),
            Action::Restart(agent) => self.restart(&mut state, agent),
            Action::Forget(node) => {
                state.forgets -= 1;
                state.places[node].holder = None;
            }
            Action::Repair(job, node) => self.repair(&mut state, job, node),
            Action::Grab(node) => state.grab(node),
            Action::Leave(node) => state.places[node].holder = None,
            Action::Tick => {
                state.now += 1;
                state.places.iter_mut().for_each(|place| place.expire(state.now));
            }
        }
        state.note_moment();
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(HELD, |setting: &Self, state: &State| {
                let valid = |job: &&Job| setting.counts(state, job);
                let held = |job: &Job| job.holds.is_none_or(|(suffix, _)| state.has(suffix));
                state.jobs.iter().filter(valid).all(held)
            }),
            Property::always(ONE_FENCE, |_, state: &State| state.broken != Some(ONE_FENCE)),
            Property::always(RISING, |_, state: &State| state.broken != Some(RISING)),
            Property::always(TRUE, |_, state: &State| state.broken != Some(TRUE)),
            Property::always(RELEASED, |_, state: &State| {
                (0..8).all(|suffix| state.released & 1 << suffix == 0 || !state.has(suffix))
            }),
            Property::always(DONE, |_, state: &State| {
                let marked =
                    |suffix| state.places.iter().filter(|place| place.is_marked_by(suffix)).count();
                (0..8).all(|suffix| state.done & 1 << suffix == 0 || marked(suffix) >= MAJORITY)
            }),
            Property::always(NOTHING_LEFT, |setting: &Self, state: &State| {
                let calm = setting.twice == state.twice && setting.restarts == state.restarts;
                let over = |job: &Job| matches!(job.phase, Phase::Over(_));
                let quiet = state.messages.is_empty() && state.jobs.iter().all(over);
                let left = |(at, job): (usize, &Job)| {
                    let suffix = setting.suffix(at);
                    let given_up = job.tried && job.phase != Phase::Over(Told::Yes);
                    given_up && state.places.iter().any(|place| place.is_held_by(suffix))
                };
                !calm || !quiet || setting.gives_up() || !state.jobs.iter().enumerate().any(left)
            }),
        ]
    }
}

/// A lock that a caller was told of is held.
pub const HELD: &str =
    "a majority holds what a caller was told that it holds, until the time it was told";
/// The first half of the promise about fences.
pub const ONE_FENCE: &str = "an attempt has one fence, and no other has the same";
/// The second half of it.
pub const RISING: &str = "a fence is larger than those told before its request was made";
/// An answer is right.
pub const TRUE: &str = "yes and no were right at some moment since the request was made";
/// A lock that was released is free.
pub const RELEASED: &str = "no majority holds what was released";
/// A lock that was left done is done.
pub const DONE: &str = "a majority has the mark of what was left done";
/// Failed attempts do not stay.
pub const NOTHING_LEFT: &str =
    "a node holds no attempt that was given up, once nothing is on its way";

impl Setting {
    /// These requests at nodes that have counted equally far, and nothing out of the ordinary.
    #[must_use]
    pub fn new(requests: &[(u8, Asks)]) -> Setting {
        let plan = |(agent, asks): &(u8, Asks)| Plan { agent: *agent, asks: *asks };
        Setting {
            requests: requests.iter().map(plan).collect(),
            flaw: None,
            counted: 0,
            ticks: 0,
            others: 0,
            twice: 0,
            restarts: 0,
            forgets: 0,
            repairs: 0,
            in_turn: false,
        }
    }

    fn beginning(&self, counters: [u64; NODES]) -> State {
        let job = Job {
            phase: Phase::Before,
            before: 0,
            overlapped: false,
            seen: 0,
            relied: None,
            remembers: false,
            tried: false,
            stood: None,
            marked: false,
            twice: 0,
            unanswered: 0,
            holds: None,
        };
        State {
            now: 0,
            places: counters.map(|counter| Place { counter, ..Place::default() }),
            jobs: vec![job; self.requests.len()],
            messages: Vec::new(),
            replies: Vec::new(),
            others: self.others,
            twice: self.twice,
            restarts: self.restarts,
            forgets: self.forgets,
            repairs: self.repairs,
            told: Vec::new(),
            other_since: 0,
            released: 0,
            done: 0,
            broken: None,
        }
    }

    /// The suffix of the request's own attempt.
    fn suffix(&self, job: usize) -> u8 {
        if self.flaw == Some(Flaw::NoSuffix) { 0 } else { job as u8 }
    }

    fn is(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }

    fn gives_up(&self) -> bool {
        self.requests.iter().any(|plan| plan.asks.gives_up())
    }

    /// True if the caller may rely on what it was told at this time. It does not from when it asks for a RELEASE. What
    /// it asked for before that was answered does not count, unless the answer is 0, and to no other RELEASE.
    fn counts(&self, state: &State, job: &Job) -> bool {
        let asked =
            |(job, plan): &(&Job, &Plan)| plan.asks.gives_up() && job.phase != Phase::Before;
        let mut releases = state.jobs.iter().zip(&self.requests).filter(asked);
        let first = releases.next().is_none_or(|(job, _)| job.phase == Phase::Over(Told::No));
        let void = job.overlapped && !(first && releases.next().is_none());
        !void && job.holds.is_some_and(|(_, until)| state.instant() < until)
    }
}

const NODES: usize = 3;
const MAJORITY: usize = 2;
/// A lease is two ticks, and a claim is over when the second begins.
const TICK: u64 = 500_000;
const TTL: Millis = Millis(1_000);
