//! Words for a shell.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// A word for a POSIX shell: what is between single quotes is taken as it is.
pub fn quoted(word: impl AsRef<OsStr>) -> OsString {
    let bytes = word.as_ref().as_bytes();
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-./:@%+=,".contains(byte);
    if !bytes.is_empty() && bytes.iter().all(plain) {
        return word.as_ref().to_owned();
    }
    let parts: Vec<&[u8]> = bytes.split(|byte| *byte == b'\'').collect();
    let quoted = [&b"'"[..], &parts.join(&br"'\''"[..]), b"'"].concat();
    OsString::from_vec(quoted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_a_quoted_word_as_it_was() {
        assert_eq!(quoted("job:42"), "job:42");
        assert_eq!(quoted(""), "''");
        assert_eq!(quoted("a b"), "'a b'");
        assert_eq!(quoted("$(rm -rf ~)"), "'$(rm -rf ~)'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted("two\nlines"), "'two\nlines'");
        assert_eq!(quoted("~"), "'~'");
        assert_eq!(quoted(OsStr::from_bytes(b"\xff")), OsStr::from_bytes(b"'\xff'"));
    }
}
