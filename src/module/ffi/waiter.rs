//! Blocked clients.
//!
//! The server's own time-out is not used: it follows the wall clock, and on some versions it races with
//! unblocking. The node ends a waiter's time.

use std::ffi::c_void;
use std::ptr::{self, NonNull};

use redis_module::raw;

use dlock_core::WaitOutcome;

use super::context::{Ctx, api};

/// A blocked client. Its owner unblocks it, exactly once.
pub struct Blocked(NonNull<raw::RedisModuleBlockedClient>);

/// The answer to a blocked client, not yet sent.
pub struct PendingAnswer {
    pub answer: WaitOutcome,
}

/// The server's callbacks for a blocked client.
#[derive(Clone, Copy, Default)]
pub struct Callbacks {
    /// The client has been unblocked, and can be replied to.
    pub reply: raw::RedisModuleCmdFunc,
    /// An operator ends the client's wait, as at its time-out.
    pub timeout: raw::RedisModuleCmdFunc,
    /// The client is gone, or an operator ends its wait with an error.
    pub disconnect: raw::RedisModuleDisconnectFunc,
    /// The client's pending answer is no longer needed.
    pub free: Option<unsafe extern "C" fn(*mut raw::RedisModuleCtx, *mut c_void)>,
}

/// The identity of a blocked client, for comparisons only.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Handle(usize);

impl Blocked {
    /// Blocks the client that sent the command; `None` if the server does not allow it. The server may or may
    /// not have replied then.
    pub fn block(ctx: Ctx<'_>, callbacks: Callbacks) -> Option<Blocked> {
        let Callbacks { reply, timeout, disconnect, free } = callbacks;
        // SAFETY: see `context`; the callbacks are `entry`'s, and live as long as the server.
        unsafe {
            let client = api!(RedisModule_BlockClient(ctx.raw(), reply, timeout, free, 0));
            let client = NonNull::new(client)?;
            api!(RedisModule_SetDisconnectCallback(client.as_ptr(), disconnect));
            Some(Blocked(client))
        }
    }

    pub fn handle(&self) -> Handle {
        Handle::of(self.0.as_ptr())
    }

    /// Unblocks the client with an answer. The reply is sent before the server sleeps next.
    pub fn answer(self, answer: WaitOutcome) {
        let pending = Box::new(PendingAnswer { answer });
        // SAFETY: `self` is used up, so this is the only time; `Callbacks::free` frees the pending answer.
        unsafe {
            api!(RedisModule_UnblockClient(
                self.0.as_ptr(),
                Box::into_raw(pending).cast::<c_void>()
            ))
        };
    }

    /// Unblocks the client without an answer, because it is gone. Until then the server keeps a handle,
    /// and the two clients behind it.
    pub fn abandon(self) {
        // SAFETY: `self` is used up, so this is the only time.
        unsafe { api!(RedisModule_UnblockClient(self.0.as_ptr(), ptr::null_mut())) };
    }
}

impl PendingAnswer {
    /// The pending answer to the client of this context.
    ///
    /// # Safety
    /// The context must be the one passed to [`Callbacks::reply`].
    pub unsafe fn of<'c>(ctx: Ctx<'c>) -> Option<&'c PendingAnswer> {
        // SAFETY: `answer` has set the private data, which lives until `Callbacks::free`.
        unsafe {
            let pending = api!(RedisModule_GetBlockedClientPrivateData(ctx.raw()));
            pending.cast::<PendingAnswer>().as_ref()
        }
    }
}

impl Handle {
    /// The handle of a client that the server names in a callback.
    pub fn of(client: *mut raw::RedisModuleBlockedClient) -> Handle {
        Handle(client.addr())
    }

    /// The handle of the client of this context.
    ///
    /// # Safety
    /// The context must be the one passed to [`Callbacks::timeout`].
    pub unsafe fn of_context(ctx: Ctx<'_>) -> Handle {
        // SAFETY: by the function's contract.
        Handle::of(unsafe { api!(RedisModule_GetBlockedClientHandle(ctx.raw())) })
    }
}
