//! Models of locks: a mutex, a read-write lock, and a semaphore.
//!
//! They are those that Jepsen has for Hazelcast's locks, in other words: a mutex that only its owner releases, the
//! same with fences that grow, and permits. What is added is the lease: a hold ends by itself, at any moment from
//! the end of the validity on that its program was told last. The reentrant ones are left out: dlock's locks are
//! not reentrant.

use std::collections::BTreeMap;

use crate::history::{Asked, Heard, Line, Mode};
use crate::verdict::{Call, Object};

/// A lock with the rules of a lock.
#[derive(Clone, Debug)]
pub struct Lock;

/// The holders, and the fences that were given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct State {
    holders: Vec<(usize, Mode)>,
    /// The largest fence of all, and of an exclusive holder.
    largest: u64,
    exclusive: u64,
}

/// A step of a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A client holds from now on, with a fence.
    Acquire(usize, Mode, Option<u64>),
    /// The hold is over: the lock was given back, or the lease has ended.
    End(usize),
}

impl Object for Lock {
    type State = State;
    type Step = Step;

    fn start() -> State {
        State::default()
    }

    fn take(state: &State, step: &Step) -> Option<State> {
        let mut after = state.clone();
        match *step {
            Step::Acquire(who, mode, fence) => {
                let fits = match mode {
                    Mode::Exclusive => state.holders.is_empty(),
                    Mode::Shared => state.holders.iter().all(|(_, other)| *other == Mode::Shared),
                    Mode::Permits(most) => {
                        let permits =
                            |(_, other): &(usize, Mode)| matches!(other, Mode::Permits(_));
                        state.holders.iter().all(permits) && state.holders.len() < most as usize
                    }
                };
                if !fits || !fence.is_none_or(|fence| state.may_follow(mode, fence)) {
                    return None;
                }
                after.holders.push((who, mode));
                after.holders.sort_unstable();
                if let Some(fence) = fence {
                    after.largest = fence;
                    if mode == Mode::Exclusive {
                        after.exclusive = fence;
                    }
                }
            }
            Step::End(who) => {
                after.holders.retain(|(holder, _)| *holder != who);
                if after.holders.len() == state.holders.len() {
                    return None;
                }
            }
        }
        Some(after)
    }
}

impl State {
    /// Fences grow. Only those that hold together may have the same one.
    fn may_follow(&self, mode: Mode, fence: u64) -> bool {
        match mode {
            Mode::Exclusive => fence > self.largest,
            Mode::Shared | Mode::Permits(_) => fence >= self.largest && fence > self.exclusive,
        }
    }
}

/// The steps of one lock, as far as its programs can tell when they were.
///
/// An attempt that was refused, or heard nothing, is not here: its program does not hold, whatever the servers
/// keep of it, and may be refused though the lock is free, where several nodes are asked at once.
pub fn calls(lines: &[&Line], with_fences: bool) -> Vec<Call<Step>> {
    let mut released = BTreeMap::new();
    let mut broken = Vec::new();
    for line in lines {
        match line.asked {
            Asked::Release => _ = released.insert(&line.who[..], *line),
            Asked::Break => broken.push(line.invoke),
            _ => {}
        }
    }
    let mut calls = Vec::new();
    for (who, line) in lines.iter().enumerate() {
        let Asked::Acquire { mode, fence, until } = line.asked else { continue };
        let (Heard::Done, Some(returned), Some(until)) = (line.heard, line.returned, until) else {
            continue;
        };
        let fence = fence.filter(|_| with_fences);
        let acquire = Step::Acquire(who, mode, fence);
        calls.push(Call { step: acquire, from: line.invoke, to: returned });
        let release = released.get(&line.who[..]);
        // Whatever had begun by then may be what was ended.
        let broken = broken.iter().copied().filter(|at| *at >= line.invoke);
        let ends = broken.chain(release.map(|release| release.invoke)).chain([until]).min();
        let from = ends.unwrap_or(until).max(line.invoke);
        let heard = release.filter(|release| release.heard == Heard::Done);
        let to = heard.and_then(|release| release.returned).unwrap_or(u64::MAX).max(from);
        calls.push(Call { step: Step::End(who), from, to });
    }
    calls
}
