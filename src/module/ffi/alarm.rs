//! The one timer: it goes off when there is something to do.
//!
//! The server's timers are kept by the wall clock. So the module looks at the monotonic
//! clock again when it goes off, and the server's cron (see `event_loop::cron`) sets an alarm that has been missed.

use std::ptr;

use redis_module::raw;

use dlock_core::Instant;

use super::context::{Ctx, api};

/// What the server calls when the alarm goes off.
pub type OnAlarm = raw::RedisModuleTimerProc;

/// The alarm.
pub struct Alarm {
    /// A context of the module's own: alarms are also set where the server gives none.
    ctx: *mut raw::RedisModuleCtx,
    /// What it calls when it goes off.
    callback: OnAlarm,
    set: Option<(raw::RedisModuleTimerID, Instant)>,
    /// How often in a row it has gone off before its time.
    early: u32,
}

impl Alarm {
    /// An alarm that cannot be set yet.
    pub const fn new() -> Alarm {
        Alarm { ctx: ptr::null_mut(), callback: None, set: None, early: 0 }
    }

    /// The module is loaded: from now on it can be set. `callback` is called when it goes off.
    pub fn install(&mut self, ctx: Ctx<'_>, callback: OnAlarm) {
        self.callback = callback;
        // SAFETY: the new context lives as long as the server.
        self.ctx = unsafe { api!(RedisModule_GetDetachedThreadSafeContext(ctx.raw())) };
    }

    /// Goes off at `at`, or earlier if that is how it is set already.
    pub fn set(&mut self, now: Instant, at: Instant) {
        if self.ctx.is_null() || self.set.is_some_and(|(_, earlier)| earlier <= at) {
            return;
        }
        self.reset(now, at);
    }

    /// Goes off at `at`, whatever it was set to.
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

    /// It has gone off.
    pub fn gone_off(&mut self, now: Instant) {
        let early = self.set.take().is_some_and(|(_, at)| at.since(now) >= 1000);
        self.early = if early { self.early + 1 } else { 0 };
    }

    /// Whether it may be set again from where it has gone off.
    ///
    /// When the wall clock is set back while the server looks for timers that are due, every new
    /// one is due in its eyes, and it would find no end. The server's cron sets the alarm then.
    pub fn can_be_trusted(&self) -> bool {
        self.early < 2
    }

    /// The server has come out of its timers.
    pub fn trust(&mut self) {
        self.early = 0;
    }
}
