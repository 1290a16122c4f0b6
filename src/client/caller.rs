//! The rule of tokens for callers that choose their own, as those of an agent do.
//!
//! Two agents, or one before and after a restart, may ask for the same caller at the same time. With one token
//! for both, a failed attempt of the one would release what the other has won. So the token of an attempt is
//! the caller's and a random suffix, which also stands in the attempt's META. Whoever knows the caller's token
//! finds the attempts of others by DLOCK.INSPECT, and nobody else can use them: the suffix alone is no token.
//!
//! - The attempt that a majority of the nodes shows as a holder holds the lock for the caller.
//! - An agent releases only suffixes that it made, unless the caller asks for the release.
//!
//! Without IO, so that a change of the rule is a change of this file.

use dlock_core::limits::{MAX_META, MAX_TOKEN};
use dlock_core::who;

use crate::inspect::Inspection;
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
    pub const LONGEST_ABOUT: usize = MAX_META - MARK.len() - SUFFIX;

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
        let mark = if self.about.is_empty() { MARK.trim_ascii_start() } else { MARK };
        [&*self.about, mark, suffix.as_str().as_bytes()].concat()
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

/// The attempt that so many nodes show as a holder. No two attempts can have a majority.
#[cfg(any(test, feature = "operator"))]
pub(crate) fn holding<'i>(
    caller: &[u8],
    nodes: impl Iterator<Item = &'i Inspection>,
    majority: usize,
) -> Option<Token> {
    let held = |node: &Inspection| -> Vec<Token> {
        let holders = node.holders.iter();
        holders.filter_map(|holder| suffix(caller, &holder.id, &holder.meta)).collect()
    };
    let held: Vec<Vec<Token>> = nodes.map(held).collect();
    let votes = |suffix: &Token| held.iter().filter(|node| node.contains(suffix)).count();
    held.iter().flatten().find(|suffix| votes(suffix) >= majority).copied()
}

/// All attempts of a caller that any node shows, holders and waiters.
#[cfg(any(test, feature = "operator"))]
pub(crate) fn shown<'i>(
    caller: &[u8],
    nodes: impl Iterator<Item = &'i Inspection>,
) -> Vec<Token> {
    let mut all = Vec::new();
    for node in nodes {
        let holders = node.holders.iter().map(|holder| (&holder.id, &holder.meta));
        let waiters = node.waiters.iter().map(|waiter| (&waiter.id, &waiter.meta));
        for (id, meta) in holders.chain(waiters) {
            all.extend(suffix(caller, id, meta).filter(|suffix| !all.contains(suffix)));
        }
    }
    all
}

/// Reads an attempt's suffix in its META, if the attempt is this caller's.
#[cfg(any(test, feature = "operator"))]
fn suffix(caller: &[u8], id: &str, meta: &[u8]) -> Option<Token> {
    let (before, suffix) = meta.split_at_checked(meta.len().checked_sub(SUFFIX)?)?;
    let is_marked = before.ends_with(MARK) || before == MARK.trim_ascii_start();
    let suffix: Token = str::from_utf8(suffix).ok()?.parse().ok()?;
    (is_marked && who::id(&name(caller, &suffix)) == id).then_some(suffix)
}

/// The word that stands before the suffix, at the end of a META.
const MARK: &[u8] = b" attempt=";
/// The length of a suffix in bytes.
const SUFFIX: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inspect::{HolderInfo, WaiterInfo};

    fn holder(caller: &[u8], suffix: &Token, about: &[u8]) -> HolderInfo {
        let caller = Caller::new(caller, about);
        let id = who::id(&caller.name(suffix));
        HolderInfo { id, meta: caller.meta(suffix), ..HolderInfo::default() }
    }

    fn node(holders: Vec<HolderInfo>) -> Inspection {
        Inspection { holders, ..Inspection::default() }
    }

    #[test]
    fn an_attempt_is_found_by_the_callers_token_alone() {
        let suffix = Token::random();
        for about in [&b""[..], b"why", b"attempt=0"] {
            let nodes = [node(vec![holder(b"alice", &suffix, about)])];
            assert_eq!(holding(b"alice", nodes.iter(), 1), Some(suffix));
            assert_eq!(holding(b"alic", nodes.iter(), 1), None);
            assert_eq!(holding(b"bob", nodes.iter(), 1), None);
        }
    }

    #[test]
    fn a_majority_decides_which_attempt_holds() {
        let (one, two) = (Token::random(), Token::random());
        let nodes = [
            node(vec![holder(b"alice", &one, b"")]),
            node(vec![holder(b"alice", &two, b"")]),
            node(vec![holder(b"alice", &two, b"")]),
        ];
        assert_eq!(holding(b"alice", nodes.iter(), 2), Some(two));
        assert_eq!(holding(b"alice", nodes[..2].iter(), 2), None);
        assert_eq!(shown(b"alice", nodes.iter()), [one, two]);
    }

    #[test]
    fn a_waiter_is_shown_and_holds_nothing() {
        let suffix = Token::random();
        let HolderInfo { id, meta, .. } = holder(b"alice", &suffix, b"");
        let waiters = vec![WaiterInfo { id, meta, ..WaiterInfo::default() }];
        let nodes = [Inspection { waiters, ..Inspection::default() }];
        assert_eq!(holding(b"alice", nodes.iter(), 1), None);
        assert_eq!(shown(b"alice", nodes.iter()), [suffix]);
    }

    #[test]
    fn a_meta_that_only_looks_like_one_is_none() {
        let suffix = Token::random();
        let HolderInfo { id, meta, .. } = holder(b"alice", &suffix, b"why");
        for meta in [&meta[1 + 3..], &meta[..meta.len() - 1], suffix.as_str().as_bytes()] {
            let marked = super::suffix(b"alice", &id, meta);
            assert_eq!(marked.is_some(), meta.starts_with(b"attempt"), "{meta:?}");
        }
        assert_eq!(super::suffix(b"alice", "00000000", &meta), None);
    }
}
