//! An open mark.
//!
//! The value of a mark is its fence, and the fence is the pointer that the server keeps: no memory behind it
//! has to be allocated or freed.

use std::ffi::{c_int, c_void};
use std::ptr;

use redis_module::raw;

use dlock_core::Fence;
use dlock_core::command::apply::write_mark;
use dlock_core::durability::mark;

use super::context::{Ctx, Name, api};
use super::kind::{self, ours};

/// A fence is 53 bits long.
const _: () = assert!(size_of::<*mut c_void>() == 8);

/// A key that is open, and empty or a mark.
pub struct Mark<'c> {
    ctx: Ctx<'c>,
    raw: *mut raw::RedisModuleKey,
    name: Name,
    fence: Option<Fence>,
}

/// The key holds other data.
pub struct NoMark;

impl<'c> Mark<'c> {
    /// Opens the mark for reading.
    pub fn read(ctx: Ctx<'c>, name: Name) -> Result<Mark<'c>, NoMark> {
        Mark::open(ctx, name, raw::REDISMODULE_READ)
    }

    /// Opens the mark for reading during a load, without events and statistics.
    pub fn look(ctx: Ctx<'c>, name: Name) -> Result<Mark<'c>, NoMark> {
        Mark::open(ctx, name, raw::REDISMODULE_READ | SILENTLY)
    }

    /// Opens the mark for reading and writing.
    pub fn write(ctx: Ctx<'c>, name: Name) -> Result<Mark<'c>, NoMark> {
        Mark::open(ctx, name, raw::REDISMODULE_READ | raw::REDISMODULE_WRITE)
    }

    fn open(ctx: Ctx<'c>, name: Name, mode: u32) -> Result<Mark<'c>, NoMark> {
        // SAFETY: see `context`; a NULL answer is a missing key.
        let raw = unsafe { api!(RedisModule_OpenKey(ctx.raw(), name.raw(), mode as c_int)) }.cast();
        let mut mark = Mark { ctx, raw, name, fence: None };
        if raw.is_null() {
            return Ok(mark);
        }
        // SAFETY: the key is open; a value of our type is a fence.
        unsafe {
            if kind::MARK.is_at(raw) {
                mark.fence = fence_of(api!(RedisModule_ModuleTypeGetValue(raw)));
                return Ok(mark);
            }
            let empty = raw::REDISMODULE_KEYTYPE_EMPTY as c_int;
            if api!(RedisModule_KeyType(raw)) == empty { Ok(mark) } else { Err(NoMark) }
        }
    }

    /// The largest fence that it has seen.
    pub fn fence(&self) -> Option<Fence> {
        self.fence
    }

    /// Sets the fence, here and on replicas; `None` removes the mark.
    pub fn set(&mut self, fence: Option<Fence>) {
        match (self.fence, fence) {
            (Some(_), Some(fence)) => {
                let mut old: *mut c_void = ptr::null_mut();
                // SAFETY: the key is open for writing and has a value of our type.
                unsafe {
                    api!(RedisModule_ModuleTypeReplaceValue(
                        self.raw,
                        kind::MARK.get(),
                        pointer(fence),
                        &raw mut old
                    ));
                }
            }
            (None, Some(fence)) => {
                let kind = kind::MARK.get();
                // SAFETY: the key is open for writing, and empty.
                unsafe { api!(RedisModule_ModuleTypeSetValue(self.raw, kind, pointer(fence))) };
            }
            // SAFETY: the key is open for writing.
            (Some(old), None) => ours(pointer(old), || unsafe {
                api!(RedisModule_UnlinkKey(self.raw));
            }),
            (None, None) => return,
        }
        self.fence = fence;
        self.ctx.replicate_mark(&self.name, fence);
    }

    /// Removes an expiry that another command has set: marks never expire.
    pub fn persist(&mut self) {
        if self.fence.is_none() {
            return;
        }
        // SAFETY: the key is open for writing.
        let expires = unsafe { api!(RedisModule_GetExpire(self.raw)) } != NEVER;
        if expires {
            // SAFETY: as above.
            unsafe { api!(RedisModule_SetExpire(self.raw, NEVER)) };
            self.ctx.replicate_mark(&self.name, self.fence);
        }
    }

    /// Tells WATCH and client tracking that the mark has changed.
    pub fn signal(&self) {
        self.ctx.signal_modified(&self.name);
    }
}

impl Drop for Mark<'_> {
    fn drop(&mut self) {
        if !self.raw.is_null() {
            // SAFETY: open until now, and not used again.
            unsafe { api!(RedisModule_CloseKey(self.raw)) };
        }
    }
}

impl Ctx<'_> {
    /// Replicates the new state of a mark: this fence and no expiry, or no mark.
    ///
    /// The module replicates DLOCK.APPLY and not DLOCK.FENCED, because a callback returns FENCED's keys. While
    /// slots migrate, Redis 8.6 asks for the keys of a replicated command, and replicates it again at the end
    /// of that callback, for ever.
    fn replicate_mark(self, key: &Name, fence: Option<Fence>) {
        // Room for the longest effect, of 17 bytes.
        let mut effect = Vec::with_capacity(24);
        write_mark(fence, &mut effect);
        self.replicate_apply(key, &effect, b"");
    }
}

/// The pointer that the server keeps for a mark with this fence.
pub fn pointer(fence: Fence) -> *mut c_void {
    ptr::without_provenance_mut(fence.0 as usize)
}

/// The fence in the pointer that the server keeps.
pub fn fence_of(value: *mut c_void) -> Option<Fence> {
    mark::stored(value.addr() as u64)
}

/// Redis 7.0 has neither of these.
const SILENTLY: u32 = raw::REDISMODULE_OPEN_KEY_NONOTIFY | raw::REDISMODULE_OPEN_KEY_NOSTATS;
const NEVER: raw::mstime_t = raw::REDISMODULE_NO_EXPIRE as raw::mstime_t;
