//! A holder or a waiter, as an operator may see it.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;

use xxhash_rust::xxh3::xxh3_64;

use crate::limits::SLOW_TEXT;

/// A past or present holder or waiter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Who {
    /// The short name that replaces the token; see [`id`].
    pub id: String,
    /// Text for an operator, cut.
    pub meta: Box<[u8]>,
}

impl Who {
    /// Makes a `Who` from a token and its META.
    #[must_use]
    pub fn of(token: &[u8], meta: &[u8]) -> Who {
        Who { id: id(token), meta: cut(meta) }
    }
}

/// The short name of a token: the same on every node, and too short to tell anything useful about a
/// random token. A longer name would be less ambiguous, and would tell more.
#[must_use]
pub fn id(token: &[u8]) -> String {
    id_of(number(token))
}

/// A number that stands for a token where nobody needs the token itself.
#[must_use]
pub fn number(token: &[u8]) -> u64 {
    xxh3_64(token) >> 1
}

/// The short name of the token with this number.
#[must_use]
pub fn id_of(number: u64) -> String {
    format!("{:08x}", number >> 31)
}

/// A long text is cut as the server's slow log cuts it.
pub(crate) fn cut(text: &[u8]) -> Box<[u8]> {
    match text.split_at_checked(SLOW_TEXT) {
        Some((begin, rest)) if !rest.is_empty() => {
            [begin, format!("... ({} more bytes)", rest.len()).as_bytes()].concat().into()
        }
        _ => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_has_one_name_on_all_nodes_that_tells_32_bits_of_it() {
        assert_eq!(id(b"alice"), "4da10dd6");
        assert_eq!(id(&[b'x'; 255]).len(), 8);
        assert_ne!(id(b"alice"), id(b"alicf"));
    }
}
