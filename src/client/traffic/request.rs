//! The commands, as they are sent.

use std::time::Duration;

use dlock_core::quorum::{Ask, Send};
use dlock_core::words::{Fence, Millis, Mode};
use redis::Cmd;

use crate::key::Key;
use crate::token::Token;

/// What a lock is asked for with.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) key: Key,
    pub(crate) ttl: Duration,
    pub(crate) mode: Mode,
    pub(crate) ephemeral: bool,
    pub(crate) meta: String,
    pub(crate) max_hold: Option<Duration>,
}

impl Wanted {
    /// The command for a request of the quorum.
    pub(crate) fn command(&self, Send { ask, ttl, .. }: Send, token: &Token) -> Cmd {
        match ask {
            Ask::Acquire { fence, wait } => self.acquire(token, ttl, fence, wait),
            // One that comes late, over a connection that was given up, must not shorten anything.
            Ask::Extend { fence } => {
                let mut command = extend(&self.key, token, ttl, fence);
                command.arg("GT");
                command
            }
            Ask::Release => release(&self.key, token),
            // A token that waits holds nothing, so nothing is extended; but a node in quarantine
            // says that it is.
            Ask::Ping => extend(&self.key, token, ttl, Some(Fence(1))),
        }
    }

    fn acquire(
        &self,
        token: &Token,
        ttl: Millis,
        fence: Option<Fence>,
        wait: Option<Millis>,
    ) -> Cmd {
        let room = ROOM + self.key.as_bytes().len() + self.meta.len();
        let mut command = Cmd::with_capacity(ARGUMENTS, room);
        command.arg("DLOCK.ACQUIRE").arg(self.key.as_bytes()).arg(token.as_str()).arg(ttl.0);
        match self.mode {
            Mode::Exclusive => {}
            Mode::Shared => _ = command.arg("SHARED"),
            Mode::Limit(permits) => _ = command.arg("LIMIT").arg(permits),
        }
        if let Some(wait) = wait {
            command.arg("WAIT").arg(wait.0);
        }
        if let Some(fence) = fence {
            command.arg("FENCE").arg(fence.0);
        }
        // Whoever goes away while waiting shall leave nothing behind.
        if self.ephemeral || wait.is_some() {
            command.arg("EPHEMERAL");
        }
        if !self.meta.is_empty() {
            command.arg("META").arg(&self.meta);
        }
        command
    }
}

pub(crate) fn extend(key: &Key, token: &Token, ttl: Millis, fence: Option<Fence>) -> Cmd {
    let mut command = redis::cmd("DLOCK.EXTEND");
    command.arg(key.as_bytes()).arg(token.as_str()).arg(ttl.0);
    if let Some(fence) = fence {
        command.arg("FENCE").arg(fence.0);
    }
    command
}

pub(crate) fn release(key: &Key, token: &Token) -> Cmd {
    let mut command = redis::cmd("DLOCK.RELEASE");
    command.arg(key.as_bytes()).arg(token.as_str());
    command
}

const ARGUMENTS: usize = 12;
const ROOM: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    fn words(wanted: &Wanted, ask: Ask) -> String {
        let token: Token = "0123456789abcdef0123456789abcdef".parse().unwrap();
        let send = Send { node: 0, attempt: 0, id: 0, ask, ttl: Millis(500) };
        let packed = wanted.command(send, &token).get_packed_command();
        let text = String::from_utf8(packed).unwrap().replace(token.as_str(), "TOKEN");
        let words = text.split("\r\n").filter(|word| !word.starts_with(['*', '$']));
        words.collect::<Vec<_>>().join(" ").trim().to_owned()
    }

    fn wanted() -> Wanted {
        Wanted {
            key: "job".into(),
            ttl: Duration::from_millis(500),
            mode: Mode::Exclusive,
            ephemeral: false,
            meta: String::new(),
            max_hold: None,
        }
    }

    #[test]
    fn commands_say_what_is_wanted() {
        let (fence, wait) = (Some(Fence(9)), Some(Millis(20)));
        let plain = wanted();
        assert_eq!(
            words(&plain, Ask::Acquire { fence, wait: None }),
            "DLOCK.ACQUIRE job TOKEN 500 FENCE 9"
        );
        assert_eq!(words(&plain, Ask::Extend { fence }), "DLOCK.EXTEND job TOKEN 500 FENCE 9 GT");
        assert_eq!(words(&plain, Ask::Release), "DLOCK.RELEASE job TOKEN");
        assert_eq!(words(&plain, Ask::Ping), "DLOCK.EXTEND job TOKEN 500 FENCE 1");
        let full = Wanted { mode: Mode::Limit(3), meta: "me".to_owned(), ..wanted() };
        assert_eq!(
            words(&full, Ask::Acquire { fence, wait }),
            "DLOCK.ACQUIRE job TOKEN 500 LIMIT 3 WAIT 20 FENCE 9 EPHEMERAL META me"
        );
    }

    #[test]
    fn whoever_waits_is_ephemeral_and_whoever_holds_only_if_that_is_wanted() {
        let waiting = Ask::Acquire { fence: None, wait: Some(Millis(0)) };
        let taking = Ask::Acquire { fence: None, wait: None };
        let ephemeral = Wanted { ephemeral: true, mode: Mode::Shared, ..wanted() };
        assert_eq!(words(&ephemeral, taking), "DLOCK.ACQUIRE job TOKEN 500 SHARED EPHEMERAL");
        assert_eq!(words(&wanted(), taking), "DLOCK.ACQUIRE job TOKEN 500");
        assert_eq!(words(&wanted(), waiting), "DLOCK.ACQUIRE job TOKEN 500 WAIT 0 EPHEMERAL");
    }
}
