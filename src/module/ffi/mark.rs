//! Marks: the type `dlockmark`, and an open mark.
//!
//! The value of a mark is its fence, and the fence is the pointer that the server keeps: there is
//! nothing behind it to allocate, to free, or to use too late.

use std::ffi::{c_int, c_longlong, c_void};
use std::mem;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use redis_module::raw;

use dlock_core::{Fence, mark};

use super::context::{Ctx, Name, api, bytes_of, variadic};
use super::data_type::{is_ours, ours};
use crate::fences;

static TYPE: AtomicPtr<raw::RedisModuleType> = AtomicPtr::new(ptr::null_mut());

/// A context of the module's own: payloads come without one.
static CONTEXT: AtomicPtr<raw::RedisModuleCtx> = AtomicPtr::new(ptr::null_mut());

/// How many marks were removed or replaced by commands that are not ours.
static REMOVED: AtomicU64 = AtomicU64::new(0);

/// A fence is 53 bits long.
const _: () = assert!(size_of::<*mut c_void>() == 8);

/// How many marks were removed or replaced since the start, but for whole databases.
pub fn removed() -> u64 {
    REMOVED.load(Ordering::Relaxed)
}

/// A key that is open, and empty or a mark.
pub struct Mark<'c> {
    ctx: Ctx<'c>,
    raw: *mut raw::RedisModuleKey,
    name: Name,
    fence: Option<Fence>,
}

/// The key holds something else.
pub struct NoMark;

impl<'c> Mark<'c> {
    /// Opens it to look at.
    pub fn read(ctx: Ctx<'c>, name: Name) -> Result<Mark<'c>, NoMark> {
        Mark::open(ctx, name, raw::REDISMODULE_READ)
    }

    /// Opens it to look at and to change.
    pub fn write(ctx: Ctx<'c>, name: Name) -> Result<Mark<'c>, NoMark> {
        Mark::open(ctx, name, raw::REDISMODULE_READ | raw::REDISMODULE_WRITE)
    }

    fn open(ctx: Ctx<'c>, name: Name, mode: u32) -> Result<Mark<'c>, NoMark> {
        // SAFETY: see `context`; a NULL answer is a key that is not there.
        let raw = unsafe { api!(RedisModule_OpenKey(ctx.raw(), name.raw(), mode as c_int)) }.cast();
        let mut mark = Mark { ctx, raw, name, fence: None };
        if raw.is_null() {
            return Ok(mark);
        }
        // SAFETY: the key is open; a value of our type is a fence.
        unsafe {
            if ptr::eq(api!(RedisModule_ModuleTypeGetType(raw)), TYPE.load(Ordering::Relaxed)) {
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

    /// Changes it, here and on replicas; `None` removes it.
    pub fn set(&mut self, fence: Option<Fence>) {
        match (self.fence, fence) {
            (Some(_), Some(fence)) => {
                let mut old: *mut c_void = ptr::null_mut();
                // SAFETY: the key is open for writing and has a value of our type.
                unsafe {
                    api!(RedisModule_ModuleTypeReplaceValue(
                        self.raw,
                        TYPE.load(Ordering::Relaxed),
                        pointer(fence),
                        &raw mut old
                    ));
                }
            }
            (None, Some(fence)) => {
                let kind = TYPE.load(Ordering::Relaxed);
                // SAFETY: the key is open for writing, and empty.
                unsafe { api!(RedisModule_ModuleTypeSetValue(self.raw, kind, pointer(fence))) };
            }
            // SAFETY: the key is open for writing.
            (Some(_), None) => ours(|| unsafe {
                api!(RedisModule_UnlinkKey(self.raw));
            }),
            (None, None) => return,
        }
        self.fence = fence;
        self.ctx.replicate_mark(&self.name, fence);
    }

    /// Somebody may have set an expiry. A mark has none.
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

    /// WATCH and client tracking learn that it has changed.
    pub fn signal(&self) {
        self.ctx.signal_modified(&self.name);
    }
}

impl Drop for Mark<'_> {
    fn drop(&mut self) {
        if !self.raw.is_null() {
            // SAFETY: open until now, and used by nobody else.
            unsafe { api!(RedisModule_CloseKey(self.raw)) };
        }
    }
}

impl Ctx<'_> {
    /// A mark as it is from now on: with this fence and no expiry, or not there.
    fn replicate_mark(self, key: &Name, fence: Option<Fence>) {
        let replicate = variadic!(RedisModule_Replicate);
        let fence = fence.map_or(0, |fence| fence.0 as c_longlong);
        // SAFETY: the arguments are what the format says: s a string object, l a long long.
        unsafe {
            replicate(self.raw(), c"DLOCK.FENCED".as_ptr(), c"sl".as_ptr(), key.raw(), fence)
        };
    }
}

/// Registers the type.
pub(super) fn register(ctx: Ctx<'_>) -> Result<(), &'static str> {
    // SAFETY: all zeros are NULL callbacks, which the server takes for absent ones. No `copy`: a
    // copy of a mark marks nothing.
    let mut methods: raw::RedisModuleTypeMethods = unsafe { mem::zeroed() };
    // As in `data_type`.
    methods.version = 4;
    methods.rdb_load = Some(rdb_load);
    methods.rdb_save = Some(rdb_save);
    methods.aof_rewrite = Some(aof_rewrite);
    methods.mem_usage = Some(mem_usage);
    methods.digest = Some(digest);
    methods.free = Some(free);
    methods.unlink = Some(unlink);
    // SAFETY: the server copies the methods; the new context lives as long as the server.
    let kind = unsafe {
        let context = api!(RedisModule_GetDetachedThreadSafeContext(ctx.raw()));
        CONTEXT.store(context, Ordering::Relaxed);
        let name = c"dlockmark".as_ptr();
        api!(RedisModule_CreateDataType(ctx.raw(), name, VERSION, &raw mut methods))
    };
    TYPE.store(kind, Ordering::Relaxed);
    if kind.is_null() { Err("cannot register the type dlockmark") } else { Ok(()) }
}

fn pointer(fence: Fence) -> *mut c_void {
    ptr::without_provenance_mut(fence.0 as usize)
}

fn fence_of(value: *mut c_void) -> Option<Fence> {
    mark::stored(value.addr() as u64)
}

/// NULL: the bytes are no mark; the server then refuses the payload or file.
unsafe extern "C" fn rdb_load(io: *mut raw::RedisModuleIO, version: c_int) -> *mut c_void {
    if version != VERSION {
        return ptr::null_mut();
    }
    // SAFETY: with HANDLE_IO_ERRORS a short payload is reported, not fatal.
    let (number, failed) =
        unsafe { (api!(RedisModule_LoadUnsigned(io)), api!(RedisModule_IsIOError(io)) != 0) };
    if failed {
        return ptr::null_mut();
    }
    // SAFETY: the server knows the key of whatever it loads, and keeps it for the callback.
    let (name, db) = unsafe {
        let name = api!(RedisModule_GetKeyNameFromIO(io));
        // A copy: the server's own may lie on its stack, where a key that is open cannot keep it.
        let name = (!name.is_null()).then(|| Name::new(bytes_of(name)));
        (name, u32::try_from(api!(RedisModule_GetDbIdFromIO(io))).ok())
    };
    let there = || name.zip(db).and_then(|(name, db)| there(name, db));
    let loaded = mark::stored(number).and_then(|fence| fences::loaded(fence, there));
    loaded.map_or(ptr::null_mut(), pointer)
}

/// The mark that is at a key now, outside of any command of ours.
fn there(name: Name, db: u32) -> Option<Fence> {
    // SAFETY: the module's own context, which lives as long as the server.
    let ctx = unsafe { Ctx::new(CONTEXT.load(Ordering::Relaxed)) };
    // What is loaded goes into another place than what is there.
    if ctx.flags().is_loading() || !ctx.select(db) {
        return None;
    }
    Mark::read(ctx, name).ok()?.fence()
}

unsafe extern "C" fn rdb_save(io: *mut raw::RedisModuleIO, value: *mut c_void) {
    // SAFETY: see `context`.
    unsafe { api!(RedisModule_SaveUnsigned(io, value.addr() as u64)) };
}

unsafe extern "C" fn aof_rewrite(
    io: *mut raw::RedisModuleIO,
    key: *mut raw::RedisModuleString,
    value: *mut c_void,
) {
    let emit = variadic!(RedisModule_EmitAOF);
    let fence = value.addr() as c_longlong;
    // SAFETY: the arguments are what the format says, as in `replicate_mark`.
    unsafe { emit(io, c"DLOCK.FENCED".as_ptr(), c"sl".as_ptr(), key, fence) };
}

/// What the server keeps for a value: its type and its pointer.
unsafe extern "C" fn mem_usage(_value: *const c_void) -> usize {
    2 * size_of::<*mut c_void>()
}

unsafe extern "C" fn digest(digest: *mut raw::RedisModuleDigest, value: *mut c_void) {
    // SAFETY: see `context`.
    unsafe {
        api!(RedisModule_DigestAddLongLong(digest, value.addr() as c_longlong));
        api!(RedisModule_DigestEndSequence(digest));
    }
}

/// There is nothing behind the pointer.
unsafe extern "C" fn free(_value: *mut c_void) {}

/// Removed, replaced, expired, evicted, or moved to another name.
unsafe extern "C" fn unlink(_key: *mut raw::RedisModuleString, _value: *const c_void) {
    if !is_ours() {
        REMOVED.fetch_add(1, Ordering::Relaxed);
    }
}

const VERSION: c_int = 1;
const NEVER: raw::mstime_t = raw::REDISMODULE_NO_EXPIRE as raw::mstime_t;
