//! The rule of tokens for callers that choose their own, as those of an agent do.
//!
//! Two agents, or one before and after a restart, may ask for the same caller at the same time. With one token
//! for both, a failed attempt of the one would release what the other has won. So the token of an attempt is
//! the caller's and a random suffix, which also stands in the attempt's META. Whoever knows the caller's token
//! finds the attempts of others by DLOCK.INSPECT, and nobody else can use them: the suffix alone is no token.
//!
//! - An agent releases only suffixes that it made, unless the caller asks for the release.
//! - It may give an attempt up, until it has told the caller of the lock: the caller has gone, say. Such a
//!   release can arrive late. So another agent takes no attempt for the caller's lock before the first one has
//!   *told* the caller, marked it so in META, and by this promised not to release it by itself any more.
//! - The told attempt that a majority of the nodes shows as a holder is the caller's lock, with the same fence.
//!
//! Without IO, so that a change of the rule is a change of this file.

use dlock_core::limits::{MAX_META, MAX_TOKEN};
use dlock_core::who;

use crate::inspect::{HolderInfo, Inspection};
use crate::token::Token;

/// A caller that has chosen a token.
#[derive(Clone, PartialEq, Eq)]
pub struct Caller {
    token: Box<[u8]>,
    about: Box<[u8]>,
}

impl Caller {
    /// The longest token that a caller may choose, in bytes.
    pub const LONGEST_TOKEN: usize = MAX_TOKEN - SUFFIX;
    /// The longest text about a caller, in bytes.
    pub const LONGEST_ABOUT: usize = MAX_META - ATTEMPT.len() - SUFFIX;

    /// A caller by its token, and a text about it that everybody may see.
    #[must_use]
    pub fn new(token: &[u8], about: &[u8]) -> Caller {
        Caller { token: token.into(), about: about.into() }
    }

    pub(crate) fn name(&self, suffix: &Token) -> Vec<u8> {
        name(&self.token, suffix)
    }

    /// The META of an attempt.
    pub(crate) fn meta(&self, suffix: &Token) -> Vec<u8> {
        self.marked(ATTEMPT, suffix)
    }

    /// The META of an attempt of which the caller has been told.
    pub(crate) fn meta_told(&self, suffix: &Token) -> Vec<u8> {
        self.marked(TOLD, suffix)
    }

    fn marked(&self, mark: &[u8], suffix: &Token) -> Vec<u8> {
        [&*self.about, mark, suffix.as_str().as_bytes()].concat()
    }

    /// True if this holder is an attempt for the caller.
    #[must_use]
    pub fn is_holder(&self, holder: &HolderInfo) -> bool {
        Shown::read(&self.token, &holder.id, &holder.meta).is_some()
    }
}

/// A caller's token is a secret.
impl std::fmt::Debug for Caller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Caller").finish_non_exhaustive()
    }
}

/// The token by which the nodes know an attempt.
pub(crate) fn name(caller: &[u8], suffix: &Token) -> Vec<u8> {
    [caller, suffix.as_str().as_bytes()].concat()
}

/// An attempt, as a node shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    pub(crate) suffix: Token,
    /// True if the caller has been told of the lock.
    pub(crate) is_told: bool,
}

impl Shown {
    /// Reads an attempt's META, if the attempt is this caller's.
    fn read(caller: &[u8], id: &str, meta: &[u8]) -> Option<Shown> {
        let (before, suffix) = meta.split_at_checked(meta.len().checked_sub(SUFFIX)?)?;
        let is_told = before.ends_with(TOLD);
        let suffix: Token = str::from_utf8(suffix).ok()?.parse().ok()?;
        let is_his = is_told || before.ends_with(ATTEMPT);
        (is_his && who::id(&name(caller, &suffix)) == id).then_some(Shown { suffix, is_told })
    }
}

/// The attempt that this many nodes show as a holder. No two attempts can have a majority. It is told if any
/// of them says so.
pub(crate) fn holding<'i>(
    caller: &[u8],
    nodes: impl Iterator<Item = &'i Inspection>,
    majority: usize,
) -> Option<Shown> {
    let held = |node: &Inspection| -> Vec<Shown> {
        let holders = node.holders.iter();
        holders.filter_map(|holder| Shown::read(caller, &holder.id, &holder.meta)).collect()
    };
    let held: Vec<Vec<Shown>> = nodes.map(held).collect();
    let all = || held.iter().flatten();
    let votes = |suffix| all().filter(|shown| shown.suffix == suffix).count();
    let suffix = all().map(|shown| shown.suffix).find(|suffix| votes(*suffix) >= majority)?;
    let is_told = all().any(|shown| shown.suffix == suffix && shown.is_told);
    Some(Shown { suffix, is_told })
}

/// All attempts of a caller that any node shows, holders and waiters.
pub(crate) fn shown<'i>(caller: &[u8], nodes: impl Iterator<Item = &'i Inspection>) -> Vec<Token> {
    let mut all = Vec::new();
    for node in nodes {
        let holders = node.holders.iter().map(|holder| (&holder.id, &holder.meta));
        let waiters = node.waiters.iter().map(|waiter| (&waiter.id, &waiter.meta));
        for (id, meta) in holders.chain(waiters) {
            let suffix = Shown::read(caller, id, meta).map(|shown| shown.suffix);
            all.extend(suffix.filter(|suffix| !all.contains(suffix)));
        }
    }
    all
}

/// The word before the suffix, at the end of a META.
const ATTEMPT: &[u8] = b" attempt=";
/// The same once the caller has been told of the lock.
const TOLD: &[u8] = b" held=";
/// The length of a suffix in bytes.
const SUFFIX: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inspect::WaiterInfo;

    fn holder(caller: &[u8], suffix: &Token, is_told: bool) -> HolderInfo {
        let caller = Caller::new(caller, b"why");
        let id = who::id(&caller.name(suffix));
        let meta = if is_told { caller.meta_told(suffix) } else { caller.meta(suffix) };
        HolderInfo { id, meta, ..HolderInfo::default() }
    }

    fn node(holders: Vec<HolderInfo>) -> Inspection {
        Inspection { holders, ..Inspection::default() }
    }

    #[test]
    fn an_attempt_is_found_by_the_callers_token_alone() {
        let suffix = Token::random();
        for is_told in [false, true] {
            let nodes = [node(vec![holder(b"alice", &suffix, is_told)])];
            let shown = Shown { suffix, is_told };
            assert_eq!(holding(b"alice", nodes.iter(), 1), Some(shown));
            assert_eq!(holding(b"alic", nodes.iter(), 1), None);
            assert_eq!(holding(b"bob", nodes.iter(), 1), None);
        }
    }

    #[test]
    fn a_majority_decides_which_attempt_holds() {
        let (one, two) = (Token::random(), Token::random());
        let nodes = [
            node(vec![holder(b"alice", &one, true)]),
            node(vec![holder(b"alice", &two, false)]),
            node(vec![holder(b"alice", &two, true)]),
        ];
        let shown_two = Shown { suffix: two, is_told: true };
        assert_eq!(holding(b"alice", nodes.iter(), 2), Some(shown_two));
        assert_eq!(holding(b"alice", nodes[..2].iter(), 2), None);
        assert_eq!(shown(b"alice", nodes.iter()), [one, two]);
    }

    #[test]
    fn a_waiter_is_shown_and_holds_nothing() {
        let suffix = Token::random();
        let HolderInfo { id, meta, .. } = holder(b"alice", &suffix, false);
        let waiters = vec![WaiterInfo { id, meta, ..WaiterInfo::default() }];
        let nodes = [Inspection { waiters, ..Inspection::default() }];
        assert_eq!(holding(b"alice", nodes.iter(), 1), None);
        assert_eq!(shown(b"alice", nodes.iter()), [suffix]);
    }

    #[test]
    fn a_meta_that_only_looks_like_one_is_none() {
        let suffix = Token::random();
        let HolderInfo { id, meta, .. } = holder(b"alice", &suffix, false);
        for wrong in [&meta[..meta.len() - 1], suffix.as_str().as_bytes(), b""] {
            assert_eq!(Shown::read(b"alice", &id, wrong), None, "{wrong:?}");
        }
        assert_eq!(Shown::read(b"alice", "00000000", &meta), None);
        assert!(Shown::read(b"alice", &id, &meta).is_some());
    }
}
