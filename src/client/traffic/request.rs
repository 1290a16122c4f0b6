//! The commands of the protocol.

use dlock_core::limits::MAX_FENCE;
use dlock_core::quorum::{Ask, Send, Wait};
use dlock_core::words::{Fence, Millis, Mode};
use redis::Cmd;

use crate::key::Key;
use crate::options::LockOptions;
use crate::report::notice::Listener;
use crate::token::Token;

/// A lock to acquire.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) key: Key,
    pub(crate) options: LockOptions,
    /// The lock is taken even if it is done, over completion records up to this fence.
    pub(crate) again: Option<Fence>,
    /// True if an error names the holder.
    pub(crate) names_holder: bool,
    /// The listener of this acquisition alone.
    pub(crate) listener: Listener,
}

impl Wanted {
    pub(crate) fn new(key: Key, options: LockOptions) -> Wanted {
        let (again, names_holder, listener) = (None, true, Listener::default());
        Wanted { key, options, again, names_holder, listener }
    }

    /// Returns the command for a request of the quorum.
    pub(crate) fn command(&self, send: Send, token: &Token) -> Cmd {
        let Send { ask, ttl, .. } = send;
        let name = token.as_str().as_bytes();
        match ask {
            Ask::Acquire { fence, wait } => self.acquire(send, token, fence, wait),
            Ask::Extend { fence } => extend(&self.key, name, ttl, fence),
            Ask::Release => release(&self.key, name),
            Ask::Finish { length, fence } => {
                let mut command = release(&self.key, name);
                command.arg("DONE").arg(length.0).arg("FENCE").arg(fence.0);
                command
            }
            // A waiting token has no lease to extend; a node in quarantine reports that.
            Ask::Ping => extend(&self.key, name, ttl, Fence(1)),
        }
    }

    /// The largest fence of the completion records over which the lock is taken.
    pub(crate) fn again(&self) -> Option<Fence> {
        if self.options.again { Some(Fence(MAX_FENCE)) } else { self.again }
    }

    /// Returns the polling form of a request that waits: the node answers at once, and the client asks again.
    pub(crate) fn polled(&self, send: Send, token: &Token) -> Option<Cmd> {
        let Ask::Acquire { fence, wait: Some(wait) } = send.ask else { return None };
        wait.blocks?;
        Some(self.acquire(send, token, fence, Some(Wait { blocks: None, ..wait })))
    }

    fn acquire(
        &self,
        Send { ttl, again, .. }: Send,
        token: &Token,
        fence: Option<Fence>,
        wait: Option<Wait>,
    ) -> Cmd {
        let (name, meta) = (token.as_str(), self.options.meta.as_str());
        let room = ROOM + self.key.as_bytes().len() + name.len() + meta.len();
        let mut command = Cmd::with_capacity(ARGUMENTS, room);
        command.arg("DLOCK.ACQUIRE").arg(self.key.as_bytes()).arg(name).arg(ttl.0);
        match self.options.mode {
            Mode::Exclusive => {}
            Mode::Shared => _ = command.arg("SHARED"),
            Mode::Limit(permits) => _ = command.arg("LIMIT").arg(permits),
        }
        let Wait { blocks, keep, turn } = wait.unwrap_or_default();
        if let Some(slice) = blocks {
            command.arg("WAIT").arg(slice.0);
        }
        if let Some(keep) = keep {
            command.arg("KEEP").arg(keep.0);
        }
        if turn {
            command.arg("TURN");
        }
        if let Some(fence) = fence {
            command.arg("FENCE").arg(fence.0);
        }
        if let Some(again) = again {
            command.arg("AGAIN").arg(again.0);
        }
        if !meta.is_empty() {
            command.arg("META").arg(meta);
        }
        command
    }
}

pub(crate) fn extend(key: &Key, token: &[u8], ttl: Millis, fence: Fence) -> Cmd {
    let mut command = redis::cmd("DLOCK.EXTEND");
    command.arg(key.as_bytes()).arg(token).arg(ttl.0).arg("FENCE").arg(fence.0);
    command
}

pub(crate) fn release(key: &Key, token: &[u8]) -> Cmd {
    let mut command = redis::cmd("DLOCK.RELEASE");
    command.arg(key.as_bytes()).arg(token);
    command
}

const ARGUMENTS: usize = 17;
const ROOM: usize = 96;

#[cfg(test)]
mod tests {
    use super::*;

    fn words(wanted: &Wanted, ask: Ask) -> String {
        said(|send, token| wanted.command(send, token), ask)
    }

    fn said(command: impl Fn(Send, &Token) -> Cmd, ask: Ask) -> String {
        let token: Token = "0123456789abcdef0123456789abcdef".parse().unwrap();
        let again = matches!(ask, Ask::Acquire { wait: None, .. }).then_some(Fence(8));
        let send = Send { node: 0, attempt: 0, id: 0, ask, ttl: Millis(500), again };
        let packed = command(send, &token).get_packed_command();
        let text = String::from_utf8(packed).unwrap().replace(token.as_str(), "TOKEN");
        let words = text.split("\r\n").filter(|word| !word.starts_with(['*', '$']));
        words.collect::<Vec<_>>().join(" ").trim().to_owned()
    }

    fn wanted(options: LockOptions) -> Wanted {
        Wanted::new("job".into(), options)
    }

    #[test]
    fn commands_say_what_is_wanted() {
        let fence = Some(Fence(9));
        let wait = Some(Wait { blocks: Some(Millis(20)), keep: Some(Millis(40)), turn: true });
        let plain = wanted(LockOptions::default());
        assert_eq!(
            words(&plain, Ask::Acquire { fence, wait: None }),
            "DLOCK.ACQUIRE job TOKEN 500 FENCE 9 AGAIN 8"
        );
        let extend = Ask::Extend { fence: Fence(9) };
        assert_eq!(words(&plain, extend), "DLOCK.EXTEND job TOKEN 500 FENCE 9");
        assert_eq!(words(&plain, Ask::Release), "DLOCK.RELEASE job TOKEN");
        let finish = Ask::Finish { length: Millis(900), fence: Fence(9) };
        assert_eq!(words(&plain, finish), "DLOCK.RELEASE job TOKEN DONE 900 FENCE 9");
        assert_eq!(words(&plain, Ask::Ping), "DLOCK.EXTEND job TOKEN 500 FENCE 1");
        let options =
            LockOptions { mode: Mode::Limit(3), meta: "me".to_owned(), ..LockOptions::default() };
        let full = wanted(options);
        assert_eq!(
            words(&full, Ask::Acquire { fence, wait }),
            "DLOCK.ACQUIRE job TOKEN 500 LIMIT 3 WAIT 20 KEEP 40 TURN FENCE 9 META me"
        );
    }

    #[test]
    fn a_request_that_waits_has_a_form_that_polls() {
        let wait = Wait { blocks: Some(Millis(5)), keep: Some(Millis(9)), turn: false };
        let waiting = Ask::Acquire { fence: None, wait: Some(wait) };
        let shared = wanted(LockOptions { mode: Mode::Shared, ..LockOptions::default() });
        assert_eq!(words(&shared, waiting), "DLOCK.ACQUIRE job TOKEN 500 SHARED WAIT 5 KEEP 9");
        let polls = "DLOCK.ACQUIRE job TOKEN 500 SHARED KEEP 9";
        assert_eq!(said(|send, token| shared.polled(send, token).unwrap(), waiting), polls);
    }
}
