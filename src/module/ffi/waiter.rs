//! Blocked clients.
//!
//! The server's own time-out is not used: it follows the wall clock, and on some versions it
//! races with unblocking. A waiter's time is the node's business.

use std::ffi::{c_int, c_void};
use std::ptr::{self, NonNull};

use redis_module::raw;

use dlock_core::{Answer, KeyBuf, WaiterId};

use super::context::{Ctx, OK, api};
use crate::{outside, reply};

/// A blocked client. Unblocked exactly once, by whoever has it.
pub struct Blocked(NonNull<raw::RedisModuleBlockedClient>);

/// What a blocked client is told, on its way.
pub struct Parting {
    pub waiter: WaiterId,
    pub answer: Answer,
    pub key: KeyBuf,
    handle: Handle,
}

/// Which blocked client: good for comparing, and for nothing else.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Handle(usize);

impl Blocked {
    /// Blocks the client that sent the command; `None` if the server does not allow it. The
    /// server may or may not have replied then.
    pub fn block(ctx: Ctx<'_>) -> Option<Blocked> {
        // SAFETY: see `context`; the callbacks live as long as the server.
        unsafe {
            let client =
                api!(RedisModule_BlockClient(ctx.raw(), Some(on_reply), None, Some(on_free), 0));
            let client = NonNull::new(client)?;
            api!(RedisModule_SetDisconnectCallback(client.as_ptr(), Some(on_disconnect)));
            Some(Blocked(client))
        }
    }

    pub fn handle(&self) -> Handle {
        Handle(self.0.as_ptr().addr())
    }

    /// Lets it go, with an answer. The reply is sent before the server sleeps next.
    pub fn answer(self, waiter: WaiterId, answer: Answer, key: KeyBuf) {
        let parting = Box::new(Parting { waiter, answer, key, handle: self.handle() });
        // SAFETY: `self` is used up, so this is the only time; `on_free` frees the parting.
        unsafe {
            api!(RedisModule_UnblockClient(
                self.0.as_ptr(),
                Box::into_raw(parting).cast::<c_void>()
            ))
        };
    }

    /// Lets it go without an answer: the client is gone. The server keeps a handle, and the two
    /// clients behind it, until it is unblocked, also then.
    pub fn abandon(self) {
        // SAFETY: `self` is used up, so this is the only time.
        unsafe { api!(RedisModule_UnblockClient(self.0.as_ptr(), ptr::null_mut())) };
    }
}

unsafe extern "C" fn on_reply(
    ctx: *mut raw::RedisModuleCtx,
    _argv: *mut *mut raw::RedisModuleString,
    _argc: c_int,
) -> c_int {
    // SAFETY: the context is this callback's; the private data is what `answer` gave, and lives
    // until `on_free`.
    unsafe {
        let ctx = Ctx::new(ctx);
        let parting: *const Parting =
            api!(RedisModule_GetBlockedClientPrivateData(ctx.raw())).cast::<Parting>();
        if let Some(parting) = parting.as_ref() {
            outside::answered(parting.waiter, parting.handle, parting.answer);
            reply::answer(ctx, parting.answer, &parting.key.name);
        }
    }
    OK
}

/// The client is gone, or somebody else unblocked it.
unsafe extern "C" fn on_disconnect(
    _ctx: *mut raw::RedisModuleCtx,
    client: *mut raw::RedisModuleBlockedClient,
) {
    outside::waiter_gone(Handle(client.addr()));
}

unsafe extern "C" fn on_free(_ctx: *mut raw::RedisModuleCtx, parting: *mut c_void) {
    if !parting.is_null() {
        // SAFETY: from `answer`, and the server calls this once.
        drop(unsafe { Box::from_raw(parting.cast::<Parting>()) });
    }
}
