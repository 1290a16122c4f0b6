//! The commands, as they are sent.

use std::time::Duration;

use dlock_core::quorum::Ask;
use dlock_core::words::{Fence, Millis, Mode};
use redis::Cmd;

use crate::token::Token;

/// What a lock is asked for with.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) key: String,
    pub(crate) ttl: Duration,
    pub(crate) mode: Mode,
    pub(crate) ephemeral: bool,
    pub(crate) meta: String,
    pub(crate) max_hold: Option<Duration>,
    pub(crate) token: Option<Token>,
}

impl Wanted {
    /// The command for a request of the quorum, with a lease of `ttl`.
    pub(crate) fn command(&self, ask: Ask, token: &Token, ttl: Millis) -> Cmd {
        match ask {
            Ask::Acquire { fence, wait } => self.acquire(token, ttl, fence, wait),
            Ask::Extend { fence } => extend(&self.key, token, ttl, fence),
            Ask::Release => release(&self.key, token),
            Ask::Ping => redis::cmd("PING"),
        }
    }

    fn acquire(
        &self,
        token: &Token,
        ttl: Millis,
        fence: Option<Fence>,
        wait: Option<Millis>,
    ) -> Cmd {
        let room = ROOM + self.key.len() + self.meta.len();
        let mut command = Cmd::with_capacity(ARGUMENTS, room);
        command.arg("DLOCK.ACQUIRE").arg(&self.key).arg(token.as_str()).arg(ttl.0);
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

pub(crate) fn extend(key: &str, token: &Token, ttl: Millis, fence: Option<Fence>) -> Cmd {
    let mut command = redis::cmd("DLOCK.EXTEND");
    command.arg(key).arg(token.as_str()).arg(ttl.0);
    if let Some(fence) = fence {
        command.arg("FENCE").arg(fence.0);
    }
    command
}

pub(crate) fn release(key: &str, token: &Token) -> Cmd {
    let mut command = redis::cmd("DLOCK.RELEASE");
    command.arg(key).arg(token.as_str());
    command
}

const ARGUMENTS: usize = 12;
const ROOM: usize = 128;
