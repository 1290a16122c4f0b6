//! The timer's callback.

use std::ffi::c_void;

use redis_module::raw;

use crate::event_loop;
use crate::ffi::context::Ctx;

pub unsafe extern "C" fn on_alarm(ctx: *mut raw::RedisModuleCtx, _data: *mut c_void) {
    // SAFETY: the context is this callback's.
    event_loop::timer_fired(unsafe { Ctx::new(ctx) });
}
