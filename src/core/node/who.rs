//! The names of tokens for operators: a token itself is a secret.

use alloc::format;
use alloc::string::String;

use xxhash_rust::xxh3::xxh3_64;

/// The short name of a token: the same on every node, and too short to reveal a random token. A longer name
/// would be less ambiguous, and reveal more.
#[must_use]
pub fn id(token: &[u8]) -> String {
    id_of(number(token))
}

/// A number that stands for a token wherever the token itself is not needed.
#[must_use]
pub fn number(token: &[u8]) -> u64 {
    xxh3_64(token) >> 1
}

/// The short name of the token with this number.
#[must_use]
pub fn id_of(number: u64) -> String {
    format!("{:08x}", number >> 31)
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
