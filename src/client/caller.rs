//! Tokens that callers choose, as those of an agent do.
//!
//! Two agents, or one before and after a restart, may ask for the same caller at the same time. With one token
//! for both, a failed attempt of the one would release what the other has won. So the token of an attempt is
//! the caller's and a random suffix, which also stands in the attempt's META. Whoever knows the caller's token
//! finds the attempts of others by DLOCK.INSPECT, and nobody else can use them: the suffix alone is no token.
//!
//! The rule by which an attempt is found is in `dlock_core`, in `quorum::attempts`. This is its form at the nodes.

#[cfg(test)]
use dlock_core::limits::MAX_FENCE;
use dlock_core::limits::{MAX_META, MAX_TOKEN};
use dlock_core::quorum::Sound;
use dlock_core::quorum::attempts::{self, Found, Shown};
use dlock_core::who;
use dlock_core::words::Fence;

use crate::inspect::{HolderInfo, Inspection};
use crate::token::Token;

/// A caller that has chosen a token.
#[derive(Clone, PartialEq, Eq)]
pub struct Caller {
    token: Box<[u8]>,
    about: Box<[u8]>,
    /// The fence of a claim that has stood: its maker does not give the attempt up any more, unless the caller
    /// asks.
    pub(crate) stood: Option<Fence>,
}

impl Caller {
    /// The longest token that a caller may choose, in bytes.
    pub const LONGEST_TOKEN: usize = MAX_TOKEN - SUFFIX;
    /// The longest text about a caller, in bytes.
    pub const LONGEST_ABOUT: usize = MAX_META - MARK.len() - SUFFIX - STOOD.len() - FENCE;

    /// A caller by its token, and a text about it that everybody may see.
    #[must_use]
    pub fn new(token: &[u8], about: &[u8]) -> Caller {
        Caller { token: token.into(), about: about.into(), stood: None }
    }

    /// The token by which the nodes know an attempt.
    #[must_use]
    pub fn name(&self, suffix: &Token) -> Vec<u8> {
        name(&self.token, suffix)
    }

    /// The META of an attempt.
    pub(crate) fn meta(&self, suffix: &Token) -> Vec<u8> {
        let stood = self.stood.map(|fence| [STOOD, fence.0.to_string().as_bytes()].concat());
        [&*self.about, MARK, suffix.as_str().as_bytes(), &stood.unwrap_or_default()].concat()
    }

    /// True if this holder is an attempt for the caller.
    #[must_use]
    pub fn is_holder(&self, holder: &HolderInfo) -> bool {
        read(&self.token, &holder.id, &holder.meta).is_some()
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

/// Finds the attempt that holds a caller's lock, by what each node shows; `None`: it did not answer.
pub(crate) fn find<'i>(
    caller: &[u8],
    nodes: impl Iterator<Item = Option<Option<&'i Inspection>>>,
) -> Found<Token> {
    let shown = |node: Option<&Inspection>| -> Vec<Shown<Token>> {
        let holders = node.iter().flat_map(|node| &node.holders);
        holders.filter_map(|holder| read(caller, &holder.id, &holder.meta)).collect()
    };
    let nodes: Vec<Option<Vec<Shown<Token>>>> = nodes.map(|node| node.map(shown)).collect();
    attempts::find(&Sound, &nodes)
}

/// Reads an attempt's META, if the attempt is this caller's.
fn read(caller: &[u8], id: &str, meta: &[u8]) -> Option<Shown<Token>> {
    let at = meta.windows(MARK.len()).rposition(|part| part == MARK)?;
    let (suffix, rest) = meta.get(at + MARK.len()..)?.split_at_checked(SUFFIX)?;
    let stood = match rest {
        [] => None,
        rest => {
            let digits = str::from_utf8(rest.strip_prefix(STOOD)?).ok()?;
            Some(Fence(digits.parse().ok()?))
        }
    };
    let suffix: Token = str::from_utf8(suffix).ok()?.parse().ok()?;
    (who::id(&name(caller, &suffix)) == id).then_some(Shown { suffix, stood })
}

/// The word before the suffix, at the end of a META.
const MARK: &[u8] = b" attempt=";
/// The word before the claim's fence, which follows once the claim has stood.
const STOOD: &[u8] = b" stood=";
/// The length of a suffix in bytes.
const SUFFIX: usize = 32;
/// The digits of the largest fence.
const FENCE: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    const STANDS: Option<Fence> = Some(Fence(1_795_238_075_371_227));

    fn holder(caller: &[u8], suffix: &Token, stood: Option<Fence>) -> HolderInfo {
        let caller = Caller { stood, ..Caller::new(caller, b"why attempt=x") };
        let id = who::id(&caller.name(suffix));
        HolderInfo { id, meta: caller.meta(suffix), ..HolderInfo::default() }
    }

    fn found(caller: &[u8], holders: &[HolderInfo]) -> Found<Token> {
        let nodes: Vec<Inspection> = holders
            .iter()
            .map(|holder| Inspection { holders: vec![holder.clone()], ..Inspection::default() })
            .collect();
        find(caller, nodes.iter().map(|node| Some(Some(node))))
    }

    #[test]
    fn an_attempt_is_found_by_the_callers_token_alone() {
        let suffix = Token::random();
        let one = [holder(b"alice", &suffix, None)];
        assert_eq!(found(b"alice", &one), Found::Unsettled(suffix));
        let one = [holder(b"alice", &suffix, STANDS)];
        assert_eq!(found(b"alice", &one), Found::Stood { suffix, fence: STANDS.unwrap() });
        assert_eq!(found(b"alic", &one), Found::Nothing);
        assert_eq!(found(b"bob", &one), Found::Nothing);
    }

    #[test]
    fn a_majority_decides_which_attempt_holds() {
        let (one, two) = (Token::random(), Token::random());
        let all = [holder(b"a", &one, STANDS), holder(b"a", &two, None), holder(b"a", &two, None)];
        assert_eq!(found(b"a", &all), Found::Unsettled(two));
    }

    #[test]
    fn a_meta_that_only_looks_like_one_is_none() {
        let suffix = Token::random();
        let HolderInfo { id, meta, .. } = holder(b"alice", &suffix, STANDS);
        let with = |end: &[u8]| [&meta[..], end].concat();
        for wrong in [meta[..40].to_vec(), suffix.as_str().into(), vec![], with(b"x"), with(b" ")] {
            assert_eq!(read(b"alice", &id, &wrong), None, "{wrong:?}");
        }
        assert_eq!(read(b"alice", "00000000", &meta), None);
        assert!(read(b"alice", &id, &meta).is_some());
    }

    #[test]
    fn there_is_room_for_the_longest() {
        let longest = (&[b'x'; Caller::LONGEST_TOKEN], &[b'x'; Caller::LONGEST_ABOUT]);
        let caller = Caller { stood: Some(Fence(MAX_FENCE)), ..Caller::new(longest.0, longest.1) };
        let suffix = Token::random();
        assert_eq!(caller.name(&suffix).len(), MAX_TOKEN);
        assert_eq!(caller.meta(&suffix).len(), MAX_META);
    }
}
