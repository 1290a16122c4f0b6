//! The machines, event by event: the `first` attempt, the `gate`, one node `alone`, `two_gates` and ties, the
//! `hold`. And a lease made `longer`, a lock `taken_over` from another process, a hold that has `ended`, and
//! fences that differ: `raise`.
//!
//! A request is written as node and letter. `0A7` is ACQUIRE FENCE 7 to node 0, `0A` without a fence, `0A7w`
//! with WAIT and KEEP, `0A7b` without KEEP, `0A7wt` with TURN as well, `0A7k` with KEEP alone. `1E7` is EXTEND
//! FENCE 7, `1E` the same with the fence that the node is known to grant. `2R` is RELEASE, `2F` is RELEASE …
//! FINAL, `2P` a ping. `0A7o5` is ACQUIRE FENCE 7 AGAIN 5, `0D7/900` is RELEASE … DONE 900 FENCE 7.

mod alone;
mod done;
mod ended;
mod first;
mod gate;
mod hold;
mod longer;
mod raise;
mod taken_over;
mod two_gates;

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;
use std::format;

use crate::quorum::hold::{Hold, LossReason, State};
use crate::quorum::{
    Acquisition, Answer, Ask, Failure, LastWord, Obstacle, Plan, Requests, Send, Verdict,
};
use crate::words::Patience::{self, Forever, Try};
use crate::words::{Fence, Instant, Millis, Time};

/// A client that wants the lock, or holds it.
struct Trial {
    machine: Machine,
    /// The time in microseconds.
    now: u64,
    /// The newest request to each node, and the newest that waits.
    newest: BTreeMap<usize, u32>,
    waiting: BTreeMap<usize, u32>,
    /// The requests sent, and the outstanding RELEASE of each token at each node.
    asked: BTreeMap<u32, Send>,
    requests: BTreeMap<(u32, usize), Requests>,
    /// The fence that each node is known to grant.
    fences: BTreeMap<usize, Fence>,
    /// The lease in blocked requests.
    lease: Millis,
}

enum Machine {
    Trying(Box<Acquisition>),
    Holding(Box<Hold>),
}

const UNIX: u64 = 100;
const TTL: u64 = 1_000;
const TIMEOUT: u64 = 50;

fn plan(nodes: usize, wait: Patience) -> Plan {
    Plan {
        nodes,
        ttl: Millis(TTL),
        timeout: Millis(TIMEOUT),
        wait,
        start_at_gate: false,
        again: None,
        suspects: vec![false; nodes],
        seen: Fence(0),
        seed: 7,
    }
}

/// A wait of so many milliseconds.
fn within(millis: u64) -> Patience {
    Patience::Within(Duration::from_millis(millis))
}

fn trial(plan: Plan) -> Trial {
    let time = Time { now: Instant(0), unix: UNIX };
    let lease = plan.slices().lease;
    Trial {
        machine: Machine::Trying(Box::new(Acquisition::new(plan, time))),
        now: 0,
        newest: BTreeMap::new(),
        waiting: BTreeMap::new(),
        asked: BTreeMap::new(),
        requests: BTreeMap::new(),
        fences: BTreeMap::new(),
        lease,
    }
}

/// Three nodes that were all asked.
fn asked(wait: Patience) -> Trial {
    asked_by(plan(3, wait))
}

fn asked_by(plan: Plan) -> Trial {
    let mut trial = trial(plan);
    trial.sends("0A100 1A100 2A100");
    trial
}

/// Denied at node 0, and now in its queue.
fn queued(wait: Patience) -> Trial {
    queued_by(plan(3, wait))
}

fn queued_by(plan: Plan) -> Trial {
    let mut trial = asked_by(plan);
    trial.hears(0, Answer::Denied);
    trial.grants(1, 100);
    trial.sends("1R 2F 0A101wt");
    trial
}

/// The next in line, after it has asked all nodes; the key has counted to 119 at the gate.
fn next_in_line() -> Trial {
    next_in_line_by(plan(3, Forever))
}

fn next_in_line_by(plan: Plan) -> Trial {
    let mut trial = queued_by(plan);
    trial.waited(0, Answer::Turn(Fence(119)));
    trial.sends("1A120w 2A120w 0A120w");
    trial
}

/// Held by all three nodes.
fn held() -> Trial {
    let mut trial = asked(Try);
    (0..2).for_each(|node| trial.grants(node, 100));
    trial.holds();
    trial.now += 300;
    trial.grants(2, 100);
    trial
}

impl Trial {
    #[track_caller]
    fn sends(&mut self, expected: &str) {
        assert_eq!(self.sent(), expected);
    }

    /// The requests that it sends, in the notation above.
    #[track_caller]
    fn sent(&mut self) -> String {
        let mut sent = Vec::new();
        while let Some(send) = self.polls() {
            let newest = if send.ask.blocks() { &mut self.waiting } else { &mut self.newest };
            let ttl = if send.ask.blocks() { self.lease } else { send.ttl };
            assert!(!matches!(send.ask, Ask::Acquire { .. }) || send.ttl == ttl, "{send:?}");
            newest.insert(send.node, send.id);
            sent.extend(self.written(send));
        }
        sent.join(" ")
    }

    /// The next request that it sends.
    fn polls(&mut self) -> Option<Send> {
        let send = match &mut self.machine {
            Machine::Trying(acquisition) => acquisition.poll(),
            Machine::Holding(hold) => hold.poll(),
        }?;
        self.asked.insert(send.id, send);
        Some(send)
    }

    fn hears(&mut self, node: usize, answer: Answer) {
        self.hear(node, self.newest[&node], answer);
    }

    fn grants(&mut self, node: usize, fence: u64) {
        self.hears(node, Answer::Granted(Fence(fence)));
    }

    /// The request that waits at the node is answered.
    fn waited(&mut self, node: usize, answer: Answer) {
        self.hear(node, self.waiting[&node], answer);
    }

    /// The newest request to the node is still unanswered, and is sent over another connection.
    fn sent_again(&mut self, node: usize) {
        let ids = [self.newest.get(&node), self.waiting.get(&node)];
        let Some(id) = ids.into_iter().flatten().max().copied() else { return };
        let Send { attempt, ask, .. } = self.asked[&id];
        assert!(self.requests.entry((attempt, node)).or_default().send(ask));
        let now = Instant(self.now);
        match &mut self.machine {
            Machine::Trying(acquisition) => acquisition.sent(node, id, now),
            Machine::Holding(hold) => hold.sent(node, id, now),
        }
    }

    fn hear(&mut self, node: usize, id: u32, answer: Answer) {
        let time = self.time();
        if let Some(Send { attempt, ask, .. }) = self.asked.get(&id).copied() {
            if !matches!(answer, Answer::Silent | Answer::Unreachable) {
                self.requests.entry((attempt, node)).or_default().answered(ask, answer);
            }
            match (ask, answer) {
                (_, Answer::Granted(fence)) => _ = self.fences.insert(node, fence),
                (Ask::Extend { fence }, Answer::Extended) => _ = self.fences.insert(node, fence),
                _ => {}
            }
        }
        match &mut self.machine {
            Machine::Trying(acquisition) => acquisition.answer(node, id, answer, time),
            Machine::Holding(hold) => hold.answer(node, id, answer, time.now),
        }
    }

    /// So many milliseconds pass.
    fn passes(&mut self, millis: u64) {
        self.now += millis * 1000;
        let time = self.time();
        match &mut self.machine {
            Machine::Trying(acquisition) => acquisition.tick(time),
            Machine::Holding(hold) => hold.tick(time.now),
        }
    }

    /// Time passes until the machine's next wake.
    fn wakes(&mut self) {
        let wake = match &self.machine {
            Machine::Trying(acquisition) => acquisition.wake(),
            Machine::Holding(hold) => hold.wake(),
        };
        let wake = wake.unwrap().0;
        assert!(wake > self.now, "wakes at once");
        self.now = wake;
        self.passes(0);
    }

    fn time(&self) -> Time {
        Time { now: Instant(self.now), unix: UNIX }
    }

    fn verdict(&self) -> Verdict {
        match &self.machine {
            Machine::Trying(acquisition) => acquisition.verdict(),
            Machine::Holding(_) => unreachable!("it holds"),
        }
    }

    #[track_caller]
    fn is_pending(&self) {
        assert_eq!(self.verdict(), Verdict::Pending);
    }

    #[track_caller]
    fn wins(&self, fence: u64) {
        let Verdict::Won(claim) = self.verdict() else { panic!("{:?}", self.verdict()) };
        assert_eq!(claim.fence, Fence(fence));
    }

    #[track_caller]
    fn loses(&self, failure: Failure) {
        assert_eq!(self.verdict(), Verdict::Lost(failure));
    }

    /// Turns a won acquisition into a hold.
    #[track_caller]
    fn holds(&mut self) {
        let time = self.time();
        let Machine::Trying(acquisition) = &self.machine else { panic!("it holds") };
        let hold = acquisition.clone().into_hold(time);
        assert!(matches!(hold.state(), State::Held(_)));
        self.machine = Machine::Holding(Box::new(hold));
    }

    fn hold(&mut self) -> &mut Hold {
        match &mut self.machine {
            Machine::Holding(hold) => hold,
            Machine::Trying(_) => unreachable!("it tries"),
        }
    }

    /// The end of validity, in milliseconds.
    #[track_caller]
    fn until(&mut self) -> u64 {
        let State::Held(claim) = self.hold().state() else { panic!("{:?}", self.hold().state()) };
        claim.until.0 / 1000
    }

    #[track_caller]
    fn is_lost(&mut self, loss: LossReason) {
        assert_eq!(self.hold().state(), State::Lost(loss));
    }
}

impl Trial {
    fn written(&mut self, send: Send) -> Option<String> {
        let Send { node, attempt, ask, .. } = send;
        let requests = self.requests.entry((attempt, node)).or_default();
        match ask {
            Ask::Release => match requests.end()? {
                LastWord::Plain => Some(format!("{node}R")),
                LastWord::Final => Some(format!("{node}F")),
            },
            _ if !requests.send(ask) => panic!("{send:?} after the last word"),
            Ask::Extend { fence } if self.fences.get(&node) == Some(&fence) => {
                Some(format!("{node}E"))
            }
            _ => Some(written(send)),
        }
    }
}

fn written(send: Send) -> String {
    let Send { node, ask, again, .. } = send;
    let number = |fence: Option<Fence>| fence.map_or(String::new(), |fence| format!("{}", fence.0));
    let written = match ask {
        Ask::Acquire { fence, wait: None } => format!("{node}A{}", number(fence)),
        Ask::Acquire { fence, wait: Some(wait) } => {
            // A grant to a client that is away is for its whole lease: no place may end before.
            let keeps = wait.keep.is_some_and(|keep| keep >= send.ttl);
            let waits = match (wait.blocks.is_some(), keeps) {
                (true, true) => "w",
                (true, false) => "b",
                (false, _) => "k",
            };
            format!("{node}A{}{waits}{}", number(fence), if wait.turn { "t" } else { "" })
        }
        Ask::Extend { fence } => format!("{node}E{}", fence.0),
        Ask::Release => format!("{node}R"),
        Ask::Ping => format!("{node}P"),
        Ask::Finish { length, fence } => format!("{node}D{}/{}", fence.0, length.0),
    };
    match again {
        Some(over) => format!("{written}o{}", over.0),
        None => written,
    }
}
