//! Data with a mark, and holders whose requests arrive at any time.
//!
//! The model of the quorum shows that a later holder has a larger fence. This one takes that for granted, and
//! shows the effect of the mark: after a holder has read or written, no earlier one writes. Each holder reads
//! and then writes; a request may be on its way for any time, arrive twice, or never.

use dlock_core::Fence;
use dlock_core::durability::mark::{self, Verdict};
use stateright::{Model, Property};

/// The space that a search covers.
#[derive(Clone, Debug)]
pub struct Resource {
    /// The number of holders, one after the other.
    pub holders: u64,
    /// The number of times that each request may arrive.
    pub copies: u8,
    /// True if reads show their fence, too.
    pub reads_are_fenced: bool,
    /// True if writes show their fence.
    pub writes_are_fenced: bool,
}

/// Every rule holds.
pub const SOUND: Resource =
    Resource { holders: 3, copies: 2, reads_are_fenced: true, writes_are_fenced: true };

/// The state of the resource and its holders.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    mark: Option<Fence>,
    /// The numbers of times that each holder's read and write have arrived.
    arrived: Vec<(u8, u8)>,
    /// The latest holder that has read or written.
    newest: u64,
    /// A holder wrote after a later one had read or written.
    is_late: bool,
}

/// A request of a holder arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A holder reads.
    Read(u64),
    /// A holder writes.
    Write(u64),
}

impl Model for Resource {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let arrived = vec![(0, 0); self.holders as usize];
        vec![State { mark: None, arrived, newest: 0, is_late: false }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for (holder, (reads, writes)) in (1..).zip(&state.arrived) {
            if *reads < self.copies {
                actions.push(Action::Read(holder));
            }
            if *writes < self.copies {
                actions.push(Action::Write(holder));
            }
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        let (holder, is_write) = match action {
            Action::Read(holder) => (holder, false),
            Action::Write(holder) => (holder, true),
        };
        let arrived = &mut next.arrived[holder as usize - 1];
        *(if is_write { &mut arrived.1 } else { &mut arrived.0 }) += 1;
        if if is_write { self.writes_are_fenced } else { self.reads_are_fenced } {
            match mark::show(state.mark, Fence(holder)) {
                Verdict::Stale(_) => return Some(next),
                Verdict::Same => {}
                Verdict::Rises => next.mark = Some(Fence(holder)),
            }
        }
        next.is_late |= is_write && holder < state.newest;
        next.newest = state.newest.max(holder);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Resource>> {
        vec![
            Property::always("no holder writes after a later one", |_, state: &State| {
                !state.is_late
            }),
            Property::sometimes("every holder gets through", |model: &Resource, state: &State| {
                state.mark == Some(Fence(model.holders)) && state.arrived.iter().all(|a| a.1 > 0)
            }),
        ]
    }
}

#[cfg(test)]
mod tests {
    use stateright::{Checker, Model};

    use super::*;

    #[test]
    fn no_order_of_events_lets_a_late_write_through() {
        SOUND.checker().threads(2).spawn_dfs().join().assert_properties();
    }

    #[test]
    fn it_is_noticed_if_only_writes_are_checked_or_only_reads() {
        for bent in [
            Resource { reads_are_fenced: false, ..SOUND },
            Resource { writes_are_fenced: false, ..SOUND },
        ] {
            let checker = bent.clone().checker().threads(2).spawn_dfs().join();
            let found = checker.discovery("no holder writes after a later one");
            assert!(found.is_some(), "{bent:?}");
        }
    }
}
