//! `DLOCK.INSPECT key`

use alloc::format;
use alloc::string::String;

use xxhash_rust::xxh3::xxh3_64;

use super::{Arg, Doc, Touch};

/// How the command is documented.
pub const DOC: Doc = Doc {
    name: "DLOCK.INSPECT",
    summary: "Shows who holds a lock and who waits for it, without their tokens; null if it is free",
    complexity: "O(N) where N is the number of holders and waiters listed, at most 200",
    arity: 2,
    flags: "readonly fast",
    acl: "read fast",
    key: Some(Touch::Reads),
    args: &[Arg::KEY],
};

/// What is shown in place of a token: the same for the same token on every node, and so short that
/// nothing worth knowing of a random token follows from it. A longer one would be a better name,
/// and would tell more.
#[must_use]
pub fn id(token: &[u8]) -> String {
    format!("{:08x}", xxh3_64(token) >> 32)
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
