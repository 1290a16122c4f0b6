//! What is printed: complaints on stderr, JSON on stdout.

use std::ffi::{OsStr, OsString};
use std::fmt::Display;
use std::io::{self, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use serde_json::Value;

use crate::exit::Failure;

/// `dlock: …` on stderr, every line of it.
///
/// Nothing can be done when stderr is closed, and it is no reason to stop.
pub fn complain(message: impl Display) {
    let _ = io::stderr().write_all(prefixed(&message.to_string()).as_bytes());
}

/// One object on a line of its own, on stderr.
pub fn say(event: &Value) {
    let _ = io::stderr().write_all(format!("{event}\n").as_bytes());
}

/// What printing to stdout came to. That the reader goes away early is no failure.
pub fn shown(printed: io::Result<()>) -> Result<(), Failure> {
    match printed {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::internal(&error)),
        _ => Ok(()),
    }
}

/// One object on a line of its own, on stdout.
pub fn json(value: &Value) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{value}")?;
    stdout.flush()
}

/// Every line says who speaks: stderr is shared with the command.
pub fn prefixed(message: &str) -> String {
    message.lines().map(|line| format!("dlock: {line}\n")).collect()
}

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
    fn every_line_is_prefixed() {
        assert_eq!(prefixed("one\ntwo"), "dlock: one\ndlock: two\n");
    }

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
