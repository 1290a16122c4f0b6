//! The attempts of one caller, whose token several agents may use.
//!
//! An attempt's token is the caller's and a suffix of its own, which stands in META: so an agent that did not make
//! the attempt finds it by INSPECT. The maker promises: once META says that the claim has stood, it gives the
//! attempt up only if the caller asks. Until then other agents leave it alone, but for a RELEASE.

use alloc::vec::Vec;

use super::rules::Rules;
use crate::words::Fence;

/// An attempt that holds the lock at one node, as INSPECT shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shown<S> {
    /// The attempt's own part of the token.
    pub suffix: S,
    /// The fence of its claim, if META says that the claim has stood.
    pub stood: Option<Fence>,
}

/// The attempt that holds a caller's lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Found<S> {
    /// This attempt: its claim has stood, and it may hold at a majority. The nodes decide if it still does.
    Stood {
        /// The attempt.
        suffix: S,
        /// The claim's fence.
        fence: Fence,
    },
    /// This attempt holds at a majority. Its agent has not told the nodes that the claim has stood: it may still give
    /// the attempt up.
    Unsettled(S),
    /// None.
    Nothing,
    /// Too many nodes are silent to tell.
    Unknown,
}

/// Finds the attempt that holds a caller's lock, by the attempts that each node shows; `None`: it did not answer.
///
/// A node that is silent may have any of them. So one that has stood is not taken while another one may be the later.
pub fn find<S: Copy + Ord>(rules: &impl Rules, nodes: &[Option<Vec<Shown<S>>>]) -> Found<S> {
    let majority = rules.majority(nodes.len());
    let silent = nodes.iter().filter(|node| node.is_none()).count();
    let mut shown: Vec<Shown<S>> = nodes.iter().flatten().flatten().copied().collect();
    // Of an attempt the last one says that it has stood, if one does.
    shown.sort_unstable();
    let all: Vec<&[Shown<S>]> = shown.chunk_by(|one, next| one.suffix == next.suffix).collect();
    let possible = || all.iter().filter(|one| one.len() + silent >= majority);
    let mut doubtful = possible().filter_map(|one| one.last().filter(|last| last.stood.is_none()));
    if let Some(one) = possible().find(|one| one.len() >= majority).and_then(|one| one.last())
        && one.stood.is_none()
    {
        return Found::Unsettled(one.suffix);
    }
    if silent >= majority || doubtful.next().is_some() {
        return Found::Unknown;
    }
    // Of two the one with the smaller fence was over when the other stood.
    let stood = possible().filter_map(|one| one.last().map(|last| (last.stood, last.suffix)));
    match stood.max() {
        Some((Some(fence), suffix)) => Found::Stood { suffix, fence },
        _ => Found::Nothing,
    }
}

/// The nodes' answer to a question that each of them answers with yes or no.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Agreed {
    /// A majority says yes.
    Yes,
    /// So many nodes say no that no majority can say yes.
    No,
    /// Neither.
    Open,
}

/// Counts the nodes' answers; `None`: no answer.
pub fn count(rules: &impl Rules, nodes: &[Option<bool>]) -> Agreed {
    let majority = rules.majority(nodes.len());
    let say = |answer| nodes.iter().filter(|said| **said == Some(answer)).count();
    if say(true) >= majority {
        Agreed::Yes
    } else if nodes.len() - say(false) < majority {
        Agreed::No
    } else {
        Agreed::Open
    }
}

#[cfg(test)]
mod tests {
    use super::super::rules::Sound;
    use super::*;

    type Stood = Option<Fence>;

    const STOOD: Stood = Some(Fence(7));

    fn found(nodes: &[Option<&[(u8, Stood)]>]) -> Found<u8> {
        let shown = |(suffix, stood): &(u8, Stood)| Shown { suffix: *suffix, stood: *stood };
        let nodes: Vec<_> =
            nodes.iter().map(|node| node.map(|all| all.iter().map(shown).collect())).collect();
        find(&Sound, &nodes)
    }

    #[test]
    fn an_attempt_whose_claim_has_stood_is_found_where_it_may_be_at_a_majority() {
        let stood = Found::Stood { suffix: 1, fence: Fence(7) };
        let (told, shows): (&[_], &[_]) = (&[(1, STOOD)], &[(1, None)]);
        assert_eq!(found(&[Some(told), Some(shows), Some(&[])]), stood);
        assert_eq!(found(&[Some(told), None, Some(&[])]), stood);
        assert_eq!(found(&[Some(told), Some(&[]), Some(&[])]), Found::Nothing);
    }

    #[test]
    fn an_attempt_that_has_not_stood_is_unsettled_at_a_majority_and_nothing_below() {
        let shows: &[_] = &[(1, None)];
        assert_eq!(found(&[Some(shows), Some(shows), None]), Found::Unsettled(1));
        assert_eq!(found(&[Some(shows), Some(&[]), Some(&[])]), Found::Nothing);
        assert_eq!(found(&[Some(shows), Some(&[]), None]), Found::Unknown);
        assert_eq!(found(&[Some(&[]), None, None]), Found::Unknown);
        assert_eq!(found(&[Some(&[]), Some(&[]), None]), Found::Nothing);
    }

    #[test]
    fn of_two_attempts_the_later_one_is_found() {
        let (first, second): (&[_], &[_]) = (&[(1, Some(Fence(3)))], &[(2, STOOD)]);
        let later = Found::Stood { suffix: 2, fence: Fence(7) };
        assert_eq!(found(&[Some(first), Some(second), None]), later);
        assert_eq!(found(&[Some(first), None, None]), Found::Unknown);
        let unsettled: &[_] = &[(2, None)];
        assert_eq!(found(&[Some(first), Some(unsettled), None]), Found::Unknown);
        assert_eq!(found(&[Some(first), Some(unsettled), Some(unsettled)]), Found::Unsettled(2));
    }

    #[test]
    fn a_majority_says_yes_or_cannot_say_so_any_more() {
        let (yes, no) = (Some(true), Some(false));
        assert_eq!(count(&Sound, &[yes, no, yes]), Agreed::Yes);
        assert_eq!(count(&Sound, &[no, None, no]), Agreed::No);
        assert_eq!(count(&Sound, &[yes, None, no]), Agreed::Open);
        assert_eq!(count(&Sound, &[no; 2]), Agreed::No);
        assert_eq!(count(&Sound, &[yes, no, None, None]), Agreed::Open);
    }
}
