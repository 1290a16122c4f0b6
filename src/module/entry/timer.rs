//! The timer's callback.

use std::ffi::c_void;

use redis_module::raw;

use crate::ffi::context::Ctx;
use crate::turn;

pub unsafe extern "C" fn on_alarm(ctx: *mut raw::RedisModuleCtx, _data: *mut c_void) {
    // SAFETY: the context is this callback's.
    turn::take(unsafe { Ctx::new(ctx) });
}
