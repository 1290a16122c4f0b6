//! Models of locks: a mutex, a read-write lock, and a semaphore.
//!
//! They are Jepsen's models of Hazelcast's locks, in other words: a mutex that only its owner releases, the
//! same with fences that grow, and permits. The lease is added: a hold ends by itself, at any moment after
//! the last stated end of its validity. The reentrant models are left out: dlock's locks are not reentrant.

use std::collections::BTreeMap;

use crate::history::{Asked, Heard, Line, Mode};
use crate::verdict::{Call, Object};

/// A lock with the rules of a lock.
#[derive(Clone, Debug)]
pub struct Lock;

/// The holders, and the fences of all grants.
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
    /// Fences grow. Only holders that share the lock may have the same one.
    fn may_follow(&self, mode: Mode, fence: u64) -> bool {
        match mode {
            Mode::Exclusive => fence > self.largest,
            Mode::Shared | Mode::Permits(_) => fence >= self.largest && fence > self.exclusive,
        }
    }
}

/// The steps of one lock, with the times that its programs know.
///
/// An attempt that was refused, or got no answer, is not here. Its program does not hold, even if servers
/// have granted it something. And where several nodes are asked at once, it may be refused though the lock is
/// free.
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
        // The break may have ended any hold that had begun by then.
        let broken = broken.iter().copied().filter(|at| *at >= line.invoke);
        let ends = broken.chain(release.map(|release| release.invoke)).chain([until]).min();
        let from = ends.unwrap_or(until).max(line.invoke);
        let heard = release.filter(|release| release.heard == Heard::Done);
        let to = heard.and_then(|release| release.returned).unwrap_or(u64::MAX).max(from);
        calls.push(Call { step: Step::End(who), from, to });
    }
    calls
}
