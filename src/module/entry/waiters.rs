//! The callbacks for blocked clients.

use std::ffi::{c_int, c_void};

use redis_module::raw;

use dlock_core::WaitOutcome;

use crate::ffi::context::{Ctx, OK};
use crate::ffi::waiter::{Callbacks, Handle, Parting};
use crate::{outside, reply};

/// The callbacks that this server can have.
///
/// With one for time-outs CLIENT UNBLOCK ends a wait. Before Redis 7.4 and Valkey 8 it must not be
/// there: a client that was unblocked twice in one turn got no reply, or stopped the server.
pub fn callbacks(ctx: Ctx<'_>) -> Callbacks {
    let can_unblock = ctx.is_at_least((7, 4), (8, 0));
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
    let (ctx, parting) = unsafe {
        let ctx = Ctx::new(ctx);
        (ctx, Parting::of(ctx))
    };
    if let Some(parting) = parting {
        outside::answered(parting.waiter, parting.handle, parting.answer);
        reply::answer(ctx, parting.answer, &parting.key.name);
    }
    OK
}

/// CLIENT UNBLOCK … TIMEOUT. The module sets no time-out of the server's.
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
    outside::wait_ended(handle);
    reply::answer(ctx, WaitOutcome::Denied, b"");
    OK
}

/// The client is gone, or CLIENT UNBLOCK … ERROR has answered it.
unsafe extern "C" fn on_disconnect(
    _ctx: *mut raw::RedisModuleCtx,
    client: *mut raw::RedisModuleBlockedClient,
) {
    outside::waiter_gone(Handle::of(client));
}

unsafe extern "C" fn on_free(_ctx: *mut raw::RedisModuleCtx, parting: *mut c_void) {
    if !parting.is_null() {
        // SAFETY: from `Blocked::answer`, and the server calls this once.
        drop(unsafe { Box::from_raw(parting.cast::<Parting>()) });
    }
}
