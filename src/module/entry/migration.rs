//! The callbacks for slots that migrate as a whole, on Valkey 9, Redis 8.4 and later ones.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ops::RangeInclusive;
use std::slice;

use redis_module::raw;

use dlock_core::servers::quirks::Family;

use super::events::subscribe_to;
use crate::ffi::context::Ctx;
use crate::server_events::keys;
use crate::server_events::migration::{self, Step, migrates};
use crate::server_events::moving_slots::{Job, Refusals};

/// Subscribes to migrations, if the server has them. Returns the options that declare to the server that the
/// module handles them.
pub fn listen(ctx: Ctx<'_>) -> u32 {
    let version = ctx.version();
    match version.family {
        _ if !version.moves_slots_as_a_whole() => 0,
        Family::Valkey if subscribe_to(ctx, VALKEY_EVENT, on_step_of_valkey) => OPTION,
        Family::Valkey => 0,
        Family::Redis => {
            subscribe_to(ctx, raw::REDISMODULE_EVENT_CLUSTER_SLOT_MIGRATION, on_step_of_redis);
            subscribe_to(ctx, raw::REDISMODULE_EVENT_CLUSTER_SLOT_MIGRATION_TRIM, on_trim);
            0
        }
    }
}

unsafe extern "C" fn on_step_of_valkey(
    _ctx: *mut raw::RedisModuleCtx,
    _event: raw::RedisModuleEvent,
    step: u64,
    data: *mut c_void,
) {
    let step = match step {
        0 => Step::ImportBegins,
        1 => Step::ExportBegins,
        2 => Step::ImportFails,
        4 => Step::ImportEnds,
        3 | 5 => Step::ExportEnds,
        _ => return,
    };
    // SAFETY: the data of this event is a migration's.
    unsafe {
        if let Some(info) = data.cast::<Info>().as_ref() {
            migrates(step, info.job());
        }
    }
}

unsafe extern "C" fn on_step_of_redis(
    ctx: *mut raw::RedisModuleCtx,
    _event: raw::RedisModuleEvent,
    step: u64,
    data: *mut c_void,
) {
    // SAFETY: the context is this callback's; the data of this event describes a migration, and its parts live
    // for the length of the callback.
    let (ctx, job) = unsafe {
        let Some(info) = data.cast::<raw::RedisModuleClusterSlotMigrationInfo>().as_ref() else {
            return;
        };
        let name = if info.task_id.is_null() { c"" } else { CStr::from_ptr(info.task_id) };
        let slots = ranges(info.slots);
        (
            Ctx::new(ctx),
            Job {
                name: name_of(name.to_bytes()),
                slots,
                refusals: Refusals::Unheard,
                has_floor: false,
            },
        )
    };
    let step = match step {
        raw::REDISMODULE_SUBEVENT_CLUSTER_SLOT_MIGRATION_IMPORT_STARTED => Step::ImportBegins,
        raw::REDISMODULE_SUBEVENT_CLUSTER_SLOT_MIGRATION_IMPORT_FAILED => Step::ImportFails,
        raw::REDISMODULE_SUBEVENT_CLUSTER_SLOT_MIGRATION_IMPORT_COMPLETED => Step::ImportEnds,
        raw::REDISMODULE_SUBEVENT_CLUSTER_SLOT_MIGRATION_MIGRATE_STARTED => Step::ExportBegins,
        raw::REDISMODULE_SUBEVENT_CLUSTER_SLOT_MIGRATION_MIGRATE_FAILED => Step::ExportEnds,
        raw::REDISMODULE_SUBEVENT_CLUSTER_SLOT_MIGRATION_MIGRATE_COMPLETED => Step::Left,
        // This runs in the child process that sends the snapshot.
        raw::REDISMODULE_SUBEVENT_CLUSTER_SLOT_MIGRATION_MIGRATE_MODULE_PROPAGATE => {
            return migration::send_ahead(ctx, &job);
        }
        _ => return,
    };
    migrates(step, job);
}

unsafe extern "C" fn on_trim(
    _ctx: *mut raw::RedisModuleCtx,
    _event: raw::RedisModuleEvent,
    step: u64,
    data: *mut c_void,
) {
    if step == raw::REDISMODULE_SUBEVENT_CLUSTER_SLOT_MIGRATION_TRIM_COMPLETED {
        return;
    }
    // SAFETY: the data of this event describes a trim, and its parts live for the length of the callback.
    unsafe {
        if let Some(info) = data.cast::<raw::RedisModuleClusterSlotMigrationTrimInfo>().as_ref() {
            let slots = ranges(info.slots);
            let job =
                Job { name: name_of(b""), slots, refusals: Refusals::Unheard, has_floor: false };
            // The server may remove them without an event for each.
            keys::emptied(|key| job.has(key.name));
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

/// A range of slots, from the first to the last.
#[repr(C)]
struct Slots {
    first: c_int,
    last: c_int,
}

impl Info {
    fn job(&self) -> Job {
        let slots = if self.slots.is_null() {
            &[]
        } else {
            // SAFETY: the server passes so many, for the length of the callback.
            unsafe { slice::from_raw_parts(self.slots, self.count as usize) }
        };
        let range = |slots: &Slots| -> Option<RangeInclusive<u16>> {
            Some(u16::try_from(slots.first).ok()?..=u16::try_from(slots.last).ok()?)
        };
        let name: Vec<u8> = self.name.iter().flat_map(|byte| byte.to_ne_bytes()).collect();
        let slots = slots.iter().filter_map(range).collect();
        Job { name: name_of(&name), slots, refusals: Refusals::EndIt, has_floor: false }
    }
}

/// # Safety
/// The array must be NULL, or the server's, and live for the length of the call.
unsafe fn ranges(slots: *const raw::RedisModuleSlotRangeArray) -> Vec<RangeInclusive<u16>> {
    // SAFETY: by the function's contract; the server sends the number of ranges.
    unsafe {
        let Some(array) = slots.as_ref() else { return Vec::new() };
        let count = usize::try_from(array.num_ranges).unwrap_or(0);
        array.ranges.as_slice(count).iter().map(|slots| slots.start..=slots.end).collect()
    }
}

/// The first forty bytes of a name: servers give forty digits.
fn name_of(text: &[u8]) -> [u8; 40] {
    let mut name = [0; 40];
    name.iter_mut().zip(text).for_each(|(to, from)| *to = *from);
    name
}

const VALKEY_EVENT: u64 = 19;
/// `VALKEYMODULE_OPTIONS_HANDLE_ATOMIC_SLOT_MIGRATION`.
const OPTION: u32 = 1 << 5;
