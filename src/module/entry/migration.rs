//! What Valkey 9 and later tell of slots that migrate as a whole. The crate does not know of it.

use std::ffi::{c_char, c_int, c_void};
use std::ops::RangeInclusive;
use std::slice;

use redis_module::raw;

use crate::ffi::context::{Ctx, OK, api};
use crate::migration::{Step, migrates};
use crate::migrations::Job;

/// Subscribes to it. Whether this server has it, and is to be told that the module is ready for it.
pub fn listen(ctx: Ctx<'_>) -> bool {
    // Redis means other things by these numbers.
    let knows = ctx.server_version(c"valkey_version").is_some() && ctx.is_at_least((0, 0), (9, 0));
    let event = raw::RedisModuleEvent { id: EVENT, dataver: 1 };
    // SAFETY: see `context`; the callback lives as long as the server.
    knows
        && unsafe { api!(RedisModule_SubscribeToServerEvent(ctx.raw(), event, Some(on_step))) }
            == OK
}

unsafe extern "C" fn on_step(
    ctx: *mut raw::RedisModuleCtx,
    _event: raw::RedisModuleEvent,
    step: u64,
    data: *mut c_void,
) {
    let step = match step {
        0 => Step::ImportBegins,
        1 => Step::ExportBegins,
        2 | 4 => Step::ImportEnds,
        3 | 5 => Step::ExportEnds,
        _ => return,
    };
    // SAFETY: the context is this callback's; the data of this event is a migration's.
    unsafe {
        if let Some(info) = data.cast::<Info>().as_ref() {
            migrates(Ctx::new(ctx), step, info.job());
        }
    }
}

/// `ValkeyModuleAtomicSlotMigrationInfoV1`.
#[repr(C)]
struct Info {
    version: u64,
    /// Forty digits, and a NUL.
    name: [c_char; 41],
    slots: *const Slots,
    count: u32,
}

/// From the first to the last.
#[repr(C)]
struct Slots {
    first: c_int,
    last: c_int,
}

impl Info {
    fn job(&self) -> Job {
        let mut name = [0; 40];
        for (to, from) in name.iter_mut().zip(self.name) {
            *to = from.cast_unsigned();
        }
        let slots = if self.slots.is_null() {
            &[]
        } else {
            // SAFETY: the server gives so many, for the length of the callback.
            unsafe { slice::from_raw_parts(self.slots, self.count as usize) }
        };
        let range = |slots: &Slots| -> Option<RangeInclusive<u16>> {
            Some(u16::try_from(slots.first).ok()?..=u16::try_from(slots.last).ok()?)
        };
        Job { name, slots: slots.iter().filter_map(range).collect() }
    }
}

const EVENT: u64 = 19;
/// `VALKEYMODULE_OPTIONS_HANDLE_ATOMIC_SLOT_MIGRATION`.
pub const OPTION: u32 = 1 << 5;
