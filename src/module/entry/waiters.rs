//! The callbacks for blocked clients.

use std::ffi::{c_int, c_void};

use redis_module::raw;

use crate::ffi::context::{Ctx, OK};
use crate::ffi::waiter::{Callbacks, Handle, Parting};
use crate::{outside, reply};

pub const CALLBACKS: Callbacks =
    Callbacks { reply: Some(on_reply), disconnect: Some(on_disconnect), free: Some(on_free) };

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

/// The client is gone, or somebody else unblocked it.
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
