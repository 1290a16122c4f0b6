//! The alarm: the module's one timer, set for its next work.
//!
//! The server's timers follow the wall clock. So the module reads the monotonic clock again when the
//! timer fires, and the server's cron (see `event_loop::cron`) sets a missed alarm anew.

use std::ptr;

use redis_module::raw;

use dlock_core::Instant;

use super::context::{Ctx, api};

/// The callback of the alarm.
pub type OnAlarm = raw::RedisModuleTimerProc;

/// The alarm.
pub struct Alarm {
    /// The module's own context: some callbacks that set the alarm have none.
    ctx: *mut raw::RedisModuleCtx,
    /// The callback.
    callback: OnAlarm,
    set: Option<(raw::RedisModuleTimerID, Instant)>,
    /// The number of times in a row that it fired too early.
    early: u32,
}

impl Alarm {
    /// An alarm that cannot be set yet.
    pub const fn new() -> Alarm {
        Alarm { ctx: ptr::null_mut(), callback: None, set: None, early: 0 }
    }

    /// Makes the alarm usable, when the module is loaded.
    pub fn install(&mut self, ctx: Ctx<'_>, callback: OnAlarm) {
        self.callback = callback;
        // SAFETY: the new context lives as long as the server.
        self.ctx = unsafe { api!(RedisModule_GetDetachedThreadSafeContext(ctx.raw())) };
    }

    /// The module's own context, once the module is loaded.
    pub fn ctx(&self) -> Option<Ctx<'static>> {
        // SAFETY: the context lives as long as the server.
        (!self.ctx.is_null()).then(|| unsafe { Ctx::new(self.ctx) })
    }

    /// Sets the alarm to `at`, unless it is set to an earlier time.
    pub fn set(&mut self, now: Instant, at: Instant) {
        if self.ctx.is_null() || self.set.is_some_and(|(_, earlier)| earlier <= at) {
            return;
        }
        self.reset(now, at);
    }

    /// Sets the alarm to `at`, even if it was set to an earlier time.
    pub fn reset(&mut self, now: Instant, at: Instant) {
        let delay = at.since(now).div_ceil(1000);
        let delay = raw::mstime_t::try_from(delay).unwrap_or(raw::mstime_t::MAX);
        // SAFETY: the context is the module's own; the callback is `entry`'s, and lives as long as the server.
        unsafe {
            if let Some((timer, _)) = self.set.take() {
                api!(RedisModule_StopTimer(self.ctx, timer, ptr::null_mut()));
            }
            let timer =
                api!(RedisModule_CreateTimer(self.ctx, delay, self.callback, ptr::null_mut()));
            self.set = Some((timer, at));
        }
    }

    /// Notes that it has fired.
    pub fn gone_off(&mut self, now: Instant) {
        let early = self.set.take().is_some_and(|(_, at)| at.since(now) >= 1000);
        self.early = if early { self.early + 1 } else { 0 };
    }

    /// True if its callback may set it again.
    ///
    /// If the wall clock is set back while the server looks for due timers, it takes every new one for due, and
    /// would loop for ever. The server's cron sets the alarm then.
    pub fn can_be_trusted(&self) -> bool {
        self.early < 2
    }

    /// Notes that the server has left its loop over timers.
    pub fn trust(&mut self) {
        self.early = 0;
    }
}
