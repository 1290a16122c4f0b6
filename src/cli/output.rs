//! What is printed: complaints on stderr, JSON on stdout.

use std::fmt::Display;
use std::io::{self, Write};

use serde_json::Value;

/// `dlock: …` on stderr, every line of it.
///
/// Nothing can be done when stderr is closed, and it is no reason to stop.
pub fn complain(message: impl Display) {
    let _ = io::stderr().write_all(prefixed(&message.to_string()).as_bytes());
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
pub fn quoted(word: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./:@%+=,".contains(&byte);
    if !word.is_empty() && word.bytes().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
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
    }
}
