//! The callbacks for blocked clients.

use std::ffi::{c_int, c_void};

use redis_module::raw;

use dlock_core::WaitOutcome;

use crate::ffi::context::{Ctx, OK};
use crate::ffi::waiter::{Callbacks, Handle, PendingAnswer};
use crate::reply;
use crate::server_events::disconnections;

/// The callbacks that this server version can have.
pub fn callbacks(ctx: Ctx<'_>) -> Callbacks {
    let can_unblock = ctx.version().may_have_timeout_callback();
    Callbacks {
        reply: Some(on_reply),
        timeout: if can_unblock { Some(on_timeout) } else { None },
        disconnect: Some(on_disconnect),
        free: Some(on_free),
    }
}

unsafe extern "C" fn on_reply(
    ctx: *mut raw::RedisModuleCtx,
    _argv: *mut *mut raw::RedisModuleString,
    _argc: c_int,
) -> c_int {
    // SAFETY: the context is this callback's.
    let (ctx, pending) = unsafe {
        let ctx = Ctx::new(ctx);
        (ctx, PendingAnswer::of(ctx))
    };
    if let Some(pending) = pending {
        reply::answer(ctx, pending.answer);
    }
    OK
}

/// Handles CLIENT UNBLOCK … TIMEOUT. The module uses no time-out of the server.
unsafe extern "C" fn on_timeout(
    ctx: *mut raw::RedisModuleCtx,
    _argv: *mut *mut raw::RedisModuleString,
    _argc: c_int,
) -> c_int {
    // SAFETY: the context is this callback's.
    let (ctx, handle) = unsafe {
        let ctx = Ctx::new(ctx);
        (ctx, Handle::of_context(ctx))
    };
    disconnections::wait_ended(handle);
    reply::answer(ctx, WaitOutcome::Denied);
    OK
}

/// Handles a client that is gone, or was answered by CLIENT UNBLOCK … ERROR.
unsafe extern "C" fn on_disconnect(
    _ctx: *mut raw::RedisModuleCtx,
    client: *mut raw::RedisModuleBlockedClient,
) {
    disconnections::waiter_gone(Handle::of(client));
}

unsafe extern "C" fn on_free(_ctx: *mut raw::RedisModuleCtx, pending: *mut c_void) {
    if !pending.is_null() {
        // SAFETY: from `Blocked::answer`, and the server calls this once.
        drop(unsafe { Box::from_raw(pending.cast::<PendingAnswer>()) });
    }
}
