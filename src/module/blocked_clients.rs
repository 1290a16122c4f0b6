//! The blocked clients, and the answers to them.

use std::collections::BTreeMap;

use dlock_core::{Answers, WaitOutcome, WaiterId};

use crate::ffi::context::Ctx;
use crate::ffi::waiter::{Blocked, Callbacks, Handle};

/// The blocked clients.
#[derive(Default)]
pub struct BlockedClients {
    blocked: BTreeMap<WaiterId, Blocked>,
    handles: BTreeMap<Handle, WaiterId>,
    /// Answers found before their client was blocked.
    early: BTreeMap<WaiterId, WaitOutcome>,
    /// The callbacks that the server runs for blocked clients.
    callbacks: Callbacks,
}

impl Answers for BlockedClients {
    fn answer(&mut self, waiter: WaiterId, answer: WaitOutcome) {
        match self.blocked.remove(&waiter) {
            Some(blocked) => {
                self.handles.remove(&blocked.handle());
                blocked.answer(answer);
            }
            None => {
                self.early.insert(waiter, answer);
            }
        }
    }
}

impl BlockedClients {
    /// Sets the callbacks, when the module is loaded.
    pub fn install(&mut self, callbacks: Callbacks) {
        self.callbacks = callbacks;
    }

    /// Blocks the client that sent the command. False: the server does not allow it.
    pub fn block(&mut self, ctx: Ctx<'_>, waiter: WaiterId) -> bool {
        let Some(blocked) = Blocked::block(ctx, self.callbacks) else { return false };
        self.handles.insert(blocked.handle(), waiter);
        self.blocked.insert(waiter, blocked);
        true
    }

    /// Takes an answer that was found before the client was blocked.
    pub fn early(&mut self, waiter: WaiterId) -> Option<WaitOutcome> {
        self.early.remove(&waiter)
    }

    /// Notes that a client is gone. None: it has been answered.
    pub fn gone(&mut self, handle: Handle) -> Option<WaiterId> {
        let waiter = self.handles.remove(&handle)?;
        if let Some(blocked) = self.blocked.remove(&waiter) {
            blocked.abandon();
        }
        Some(waiter)
    }
}
