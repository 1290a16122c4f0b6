//! Output to stderr: complaints for people, events for programs.

use std::fmt::Display;
use std::io::{self, Write};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use nix::sys::signal::{SigSet, Signal};
use serde_json::{Value, json};

use super::bytes;
use crate::signals;

/// Prints `dlock: …`, on every line of the message.
///
/// Ignores a closed stderr.
pub fn complain(message: impl Display) {
    let _ = io::stderr().write_all(prefixed(&message.to_string()).as_bytes());
}

/// Prints one object on a line of its own.
pub fn event(event: &Value) {
    let _ = io::stderr().write_all(bytes::line(event).as_bytes());
}

/// Prints a warning. The kind is for programs.
pub fn warn(kind: &str, message: impl Display, as_json: bool) {
    let _ = io::stderr().write_all(warning(kind, message, as_json).as_bytes());
}

/// The text of a warning.
pub fn warning(kind: &str, message: impl Display, as_json: bool) -> String {
    let message = message.to_string();
    match as_json {
        true => bytes::line(&json!({"event": "warning", "kind": kind, "message": message})),
        false => prefixed(&message),
    }
}

/// Puts the program's name before every line: the command uses stderr, too.
pub fn prefixed(message: &str) -> String {
    message.lines().map(|line| format!("dlock: {line}\n")).collect()
}

/// A thread of its own that writes to stderr: a slow reader, or Ctrl-S in the terminal, must not block the work on
/// locks. Text that stays unread for too long is dropped.
#[derive(Clone)]
pub struct Writer(mpsc::SyncSender<Message>);

enum Message {
    Text(String),
    Flush(mpsc::Sender<()>),
}

impl Writer {
    /// Starts the thread, which ends with the last of its writers.
    pub fn start() -> Writer {
        let (writer, messages) = mpsc::sync_channel(MOST_UNWRITTEN);
        thread::spawn(move || {
            signals::hold_off();
            write_all(&messages);
        });
        Writer(writer)
    }

    /// Writes this text, which ends its line.
    pub fn write(&self, text: String) {
        let _ = self.0.try_send(Message::Text(text));
    }

    /// Waits until all is written, with a limit: the reader may be stopped.
    pub fn flush(&self) {
        let (done, all_written) = mpsc::channel();
        if self.0.try_send(Message::Flush(done)).is_ok() {
            let _ = all_written.recv_timeout(SLOW_READER);
        }
    }
}

fn write_all(messages: &mpsc::Receiver<Message>) {
    // In the background, writing to the terminal could stop dlock.
    let _ = SigSet::from(Signal::SIGTTOU).thread_block();
    for message in messages {
        match message {
            // Ignores a closed stderr.
            Message::Text(text) => drop(io::stderr().write_all(text.as_bytes())),
            Message::Flush(done) => drop(done.send(())),
        }
    }
}

const SLOW_READER: Duration = Duration::from_millis(500);
const MOST_UNWRITTEN: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_prefixed() {
        assert_eq!(prefixed("one\ntwo"), "dlock: one\ndlock: two\n");
    }
}
