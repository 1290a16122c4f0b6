//! Output to stderr: complaints for people, events for programs.

use std::fmt::Display;
use std::io::{self, Write};

use serde_json::{Value, json};

/// Prints `dlock: …`, on every line of the message.
///
/// A closed stderr leaves nothing to do, and is no reason to stop.
pub fn complain(message: impl Display) {
    let _ = io::stderr().write_all(prefixed(&message.to_string()).as_bytes());
}

/// Prints one object on a line of its own.
pub fn event(event: &Value) {
    let _ = io::stderr().write_all(format!("{event}\n").as_bytes());
}

/// Prints a warning. The kind is for programs.
pub fn warn(kind: &str, message: impl Display, as_json: bool) {
    match as_json {
        true => event(&json!({"event": "warning", "kind": kind, "message": message.to_string()})),
        false => complain(message),
    }
}

/// Puts the program's name before every line: the command uses stderr, too.
pub fn prefixed(message: &str) -> String {
    message.lines().map(|line| format!("dlock: {line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_prefixed() {
        assert_eq!(prefixed("one\ntwo"), "dlock: one\ndlock: two\n");
    }
}
