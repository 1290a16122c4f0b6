//! The model: a few nodes, a few attempts, and a network without rules.
//!
//! The attempts are the product's own [`Ballot`]s. The nodes are the rules of a node, written once more and
//! as small as they can be ([`node`]). Every order of events is searched, so:
//!
//! - Requests and answers arrive in any order, late, or never: a message that is never delivered is lost.
//!   That is more than a network does: it keeps the order within a connection.
//! - Some requests may arrive twice.
//! - A lease ends at any moment: it ran out, was given back, or its node crashed. Whether a lease has ended
//!   matters only when the next request arrives at the node, so it ends then or not at all.
//! - An attempt begins at once, with its requests under way for any time; or at the moment when another has
//!   won.
//!
//! Time stands still: this is about fences, which need no clock. Whether a claim is still valid is the
//! simulation's business.

pub mod node;
pub mod resource;

use dlock_core::quorum::ballot::{Ballot, Outgoing};
use dlock_core::quorum::{Answer, Ask, Rules, Send};
use dlock_core::{Fence, Instant, Millis};
use stateright::{Model, Property};

use node::{Flaw, Place};

/// The space that a search covers.
#[derive(Clone, Debug)]
pub struct Setting<R> {
    /// The rules of a claim.
    pub rules: R,
    /// The nodes' flaw.
    pub flaw: Option<Flaw>,
    /// The number of nodes.
    pub nodes: usize,
    /// The attempts.
    pub attempts: Vec<Plan>,
    /// The nodes have counted up to this number at most when it begins: all combinations.
    pub counted: u64,
    /// A fence that is more than this much ahead of what a node has counted is too far for it.
    pub reach: u64,
    /// The number of requests that may arrive twice.
    pub twice: u8,
    /// The number of crashes, at most.
    pub crashes: u8,
    /// The number of times that a winner asks again at each node: extends, or takes the lease
    /// again.
    pub renewals: u8,
}

/// An attempt.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// True if it asks for a share.
    pub shared: bool,
    /// The fence that it proposes.
    pub proposal: u64,
}

/// An attempt to hold alone.
pub const EXCLUSIVE: Plan = Plan { shared: false, proposal: 1 };
/// An attempt to hold beside others.
pub const SHARED: Plan = Plan { shared: true, proposal: 1 };

/// The state of all nodes, attempts and messages.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State<R> {
    places: Vec<Place>,
    attempts: Vec<Attempt<R>>,
    /// The messages on their way to the nodes, and from them. In order, so that the same messages
    /// are the same state.
    requests: Vec<Request>,
    answers: Vec<(usize, usize, u32, Answer)>,
    twice: u8,
    crashes: u8,
}

/// A request on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Request {
    attempt: usize,
    node: usize,
    id: u32,
    ask: Ask,
}

impl Request {
    fn order(&self) -> (usize, usize, u32) {
        (self.attempt, self.node, self.id)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Attempt<R> {
    /// Begins when that one has won.
    After(usize),
    Pending(Pending<R>),
    Won(Win<R>),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Pending<R> {
    ballot: Ballot<R>,
    out: Outgoing,
    /// The largest fence of a claim that was made before this began.
    before: u64,
    /// True after a second round.
    raised: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Win<R> {
    fence: u64,
    before: u64,
    raised: bool,
    /// While it may be renewed.
    hold: Option<(Ballot<R>, Outgoing)>,
    renewals: Vec<u8>,
}

/// The steps from one state to the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// A request arrives.
    Arrive {
        /// The request's number.
        request: usize,
        /// The holders whose leases have ended by then, one bit each in the order of the node's
        /// holders.
        ended: u8,
        /// True if the node has crashed before.
        crashed: bool,
        /// True if the request will arrive again.
        stays: bool,
    },
    /// An answer arrives.
    Hear(usize),
    /// A winner asks a node again.
    Renew(usize, usize),
}

impl<R> Model for Setting<R>
where
    R: Rules + std::hash::Hash + Eq + std::marker::Send + Sync + 'static,
{
    type State = State<R>;
    type Action = Action;

    fn init_states(&self) -> Vec<State<R>> {
        let mut states = Vec::new();
        for counted in ascending(self.nodes, self.counted) {
            for after in orders(self.attempts.len()) {
                states.push(self.beginning(&counted, &after));
            }
        }
        states
    }

    fn actions(&self, state: &State<R>, actions: &mut Vec<Action>) {
        // No attempt is left that can win or renew: messages that still arrive change nothing.
        if !state.attempts.iter().any(Attempt::listens) {
            return;
        }
        for (request, Request { node, .. }) in state.requests.iter().enumerate() {
            let holders = state.places[*node].holders.len();
            for stays in [false, true] {
                if stays && state.twice == 0 {
                    continue;
                }
                for ended in 0..1 << holders {
                    actions.push(Action::Arrive { request, ended, crashed: false, stays });
                }
                if state.crashes > 0 {
                    actions.push(Action::Arrive { request, ended: 0, crashed: true, stays });
                }
            }
        }
        actions.extend((0..state.answers.len()).map(Action::Hear));
        for (attempt, won) in state.attempts.iter().enumerate() {
            let Attempt::Won(Win { hold: Some(_), renewals, .. }) = won else { continue };
            let nodes = (0..self.nodes).filter(|node| renewals[*node] > 0);
            actions.extend(nodes.map(|node| Action::Renew(attempt, node)));
        }
    }

    fn next_state(&self, last: &State<R>, action: Action) -> Option<State<R>> {
        let mut state = last.clone();
        match action {
            Action::Arrive { request, ended, crashed, stays } => {
                self.arrive(&mut state, request, ended, crashed, stays);
            }
            Action::Hear(answer) => self.hear(&mut state, answer),
            Action::Renew(attempt, node) => self.renew(&mut state, attempt, node),
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always(DISTINCT, |setting: &Self, state: &State<R>| {
                let wins: Vec<(usize, u64)> = state.wins().collect();
                let shared = |attempt: usize| setting.attempts[attempt].shared;
                wins.iter().all(|(one, fence)| {
                    wins.iter().all(|(other, same)| {
                        one == other || fence != same || (shared(*one) && shared(*other))
                    })
                })
            }),
            Property::always(ORDERED, |_, state: &State<R>| {
                let wins = state.attempts.iter().filter_map(Attempt::win);
                { wins }.all(|win| win.fence > win.before)
            }),
            Property::sometimes(EVERYBODY, |_, state: &State<R>| {
                state.attempts.iter().all(|attempt| attempt.win().is_some())
            }),
            Property::sometimes(IN_TURN, |_, state: &State<R>| {
                state.attempts.iter().filter_map(Attempt::win).any(|win| win.before > 0)
            }),
            Property::sometimes(LATE, |_, state: &State<R>| state.late_grant_above()),
        ];
        if self.twice == 0 && self.reach == u64::MAX {
            properties.push(Property::always(COMPLETE, |setting: &Self, state: &State<R>| {
                let quiet = state.requests.is_empty() && state.answers.is_empty();
                let holds =
                    |attempt: usize| state.places.iter().all(|place| place.is_held(attempt));
                let pending = |attempt: &usize| state.attempts[*attempt].win().is_none();
                !quiet || !(0..setting.attempts.len()).filter(pending).any(holds)
            }));
        }
        if self.counted > 0 {
            properties.push(Property::sometimes(RAISED, |_, state: &State<R>| {
                state.attempts.iter().filter_map(Attempt::win).any(|win| win.raised)
            }));
        }
        properties
    }
}

/// The first half of the promise about fences.
pub const DISTINCT: &str = "two claims never have the same fence, unless both are shared";
/// The second half of the promise about fences.
pub const ORDERED: &str = "a claim that begins after another has returned has a larger fence";
/// An attempt that holds at all nodes has won.
pub const COMPLETE: &str = "an attempt that holds at all nodes has won when nothing is on its way";
const EVERYBODY: &str = "every attempt can win";
const IN_TURN: &str = "one can win after another has returned";
const RAISED: &str = "a second round can make a claim";
const LATE: &str = "a grant above the claim can arrive late";

impl<R: Rules> Setting<R> {
    /// Three nodes, and nothing out of the ordinary. Each may have counted to one.
    pub fn new(rules: R, attempts: &[Plan]) -> Setting<R> {
        Setting {
            rules,
            flaw: None,
            nodes: 3,
            attempts: attempts.to_vec(),
            counted: 1,
            reach: u64::MAX,
            twice: 0,
            crashes: 0,
            renewals: 0,
        }
    }

    fn beginning(&self, counted: &[u64], after: &[Option<usize>]) -> State<R> {
        let mut state = State {
            places: counted.iter().map(|counted| Place::new(*counted)).collect(),
            attempts: after.iter().map(|after| Attempt::After(after.unwrap_or(0))).collect(),
            requests: Vec::new(),
            answers: Vec::new(),
            twice: self.twice,
            crashes: self.crashes,
        };
        for attempt in (0..after.len()).filter(|attempt| after[*attempt].is_none()) {
            self.begin(&mut state, attempt, 0);
        }
        state
    }

    fn begin(&self, state: &mut State<R>, attempt: usize, before: u64) {
        let mut ballot = Ballot::new(self.rules.clone(), 0, self.nodes, TTL);
        let mut out = Outgoing::default();
        let fence = Some(Fence(self.attempts[attempt].proposal));
        for node in 0..self.nodes {
            ballot.ask(&mut out, node, Ask::Acquire { fence, wait: None }, NOW);
        }
        state.send(attempt, &mut out);
        state.attempts[attempt] = Attempt::Pending(Pending { ballot, out, before, raised: false });
    }

    fn arrive(&self, state: &mut State<R>, at: usize, ended: u8, crashed: bool, stays: bool) {
        let request = state.requests[at];
        if stays {
            state.twice -= 1;
        } else {
            state.requests.remove(at);
        }
        let Request { attempt, node, id, ask } = request;
        let place = &mut state.places[node];
        if crashed {
            state.crashes -= 1;
            place.crash(self.flaw);
        }
        place.end(ended);
        let answer = if place.reaches(ask, self.reach) {
            place.carry_out(attempt, self.attempts[attempt].shared, ask, self.flaw)
        } else {
            Answer::TooFar
        };
        if state.attempts[attempt].listens() {
            state.answers.push((attempt, node, id, answer));
            state.answers.sort_unstable_by_key(|(attempt, node, id, _)| (*attempt, *node, *id));
        }
    }

    fn hear(&self, state: &mut State<R>, at: usize) {
        let (attempt, node, id, answer) = state.answers.remove(at);
        // A second answer to the same request is ignored.
        state.answers.retain(|(of, _, to, _)| (*of, *to) != (attempt, id));
        let won = match &mut state.attempts[attempt] {
            Attempt::After(_) => return,
            Attempt::Won(win) => {
                let Some((ballot, out)) = &mut win.hold else { return };
                ballot.answer(node, id, answer, NOW);
                ballot.settle(out, NOW);
                let mut out = std::mem::take(out);
                state.send(attempt, &mut out);
                state.keep(attempt, out);
                return;
            }
            Attempt::Pending(pending) => {
                pending.ballot.answer(node, id, answer, NOW);
                pending.ballot.settle(&mut pending.out, NOW);
                pending.ballot.claim().map(|claim| claim.fence.0)
            }
        };
        let Attempt::Pending(pending) = &mut state.attempts[attempt] else { return };
        let mut out = std::mem::take(&mut pending.out);
        let raised = state.send(attempt, &mut out);
        let Attempt::Pending(pending) = &mut state.attempts[attempt] else { return };
        (pending.out, pending.raised) = (out, pending.raised | raised);
        if let Some(fence) = won {
            self.win(state, attempt, fence);
        }
    }

    fn win(&self, state: &mut State<R>, attempt: usize, fence: u64) {
        let Attempt::Pending(pending) = &state.attempts[attempt] else { return };
        let Pending { ballot, out, before, raised } = pending.clone();
        let hold = (self.renewals > 0).then_some((ballot, out));
        let renewals = vec![self.renewals; if hold.is_some() { self.nodes } else { 0 }];
        if hold.is_none() {
            state.answers.retain(|(of, ..)| *of != attempt);
        }
        state.attempts[attempt] = Attempt::Won(Win { fence, before, raised, hold, renewals });
        let before = state.wins().map(|(_, fence)| fence).max().unwrap_or(0);
        for next in 0..state.attempts.len() {
            if matches!(state.attempts[next], Attempt::After(first) if first == attempt) {
                self.begin(state, next, before);
            }
        }
    }

    fn renew(&self, state: &mut State<R>, attempt: usize, node: usize) {
        let Attempt::Won(win) = &mut state.attempts[attempt] else { return };
        let Some((ballot, out)) = &mut win.hold else { return };
        win.renewals[node] -= 1;
        ballot.renew_at(out, node, NOW);
        let mut out = std::mem::take(out);
        state.send(attempt, &mut out);
        state.keep(attempt, out);
    }
}

impl<R> State<R> {
    /// Sends the machine's requests. True if one raises a node.
    fn send(&mut self, attempt: usize, out: &mut Outgoing) -> bool {
        let mut raised = false;
        while let Some(Send { node, id, ask, .. }) = out.pop() {
            raised |= matches!(ask, Ask::Extend { .. });
            self.requests.push(Request { attempt, node, id, ask });
        }
        self.requests.sort_unstable_by_key(Request::order);
        raised
    }

    fn keep(&mut self, attempt: usize, out: Outgoing) {
        if let Attempt::Won(Win { hold: Some(hold), .. }) = &mut self.attempts[attempt] {
            hold.1 = out;
        }
    }

    fn wins(&self) -> impl Iterator<Item = (usize, u64)> {
        let wins = self.attempts.iter().map(Attempt::win).enumerate();
        wins.filter_map(|(attempt, win)| Some((attempt, win?.fence)))
    }
}

impl<R: Rules> State<R> {
    fn late_grant_above(&self) -> bool {
        self.answers.iter().any(|(attempt, _, _, answer)| {
            match (&self.attempts[*attempt], answer) {
                (Attempt::Pending(Pending { ballot, .. }), Answer::Granted(fence)) => {
                    ballot.fence().is_some_and(|claimed| *fence > claimed)
                }
                _ => false,
            }
        })
    }
}

impl<R> Attempt<R> {
    fn win(&self) -> Option<&Win<R>> {
        match self {
            Attempt::Won(win) => Some(win),
            _ => None,
        }
    }

    /// True if its answer matters.
    fn listens(&self) -> bool {
        match self {
            Attempt::After(_) => false,
            Attempt::Pending(_) => true,
            Attempt::Won(win) => win.hold.is_some(),
        }
    }
}

// --- what there is to begin with ---------------------------------------------------------------

/// All lists of this many numbers up to `most` that do not descend: all nodes are alike.
fn ascending(count: usize, most: u64) -> Vec<Vec<u64>> {
    let mut lists = vec![Vec::new()];
    for _ in 0..count {
        let longer = |list: Vec<u64>| {
            let least = list.last().copied().unwrap_or(0);
            (least..=most).map(move |next| [&list[..], &[next]].concat())
        };
        lists = lists.into_iter().flat_map(longer).collect();
    }
    lists
}

/// The orders of the attempts' beginnings: each at once, or when an earlier one has won.
fn orders(count: usize) -> Vec<Vec<Option<usize>>> {
    let mut orders = vec![vec![None]];
    for attempt in 1..count {
        let longer = |order: Vec<Option<usize>>| {
            let after = (0..attempt).map(Some).chain([None]);
            after.map(move |after| [&order[..], &[after]].concat())
        };
        orders = orders.into_iter().flat_map(longer).collect();
    }
    orders
}

const NOW: Instant = Instant(0);
const TTL: Millis = Millis(1000);
