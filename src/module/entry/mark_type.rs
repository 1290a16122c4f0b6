//! The callbacks of the type `dlockmark`: a mark is stored, rewritten and weighed.

use std::ffi::{c_int, c_longlong, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use redis_module::raw;

use dlock_core::durability::mark;
use dlock_core::{Fence, Key};

use super::payload;
use crate::fenced_commands;
use crate::ffi::context::{Ctx, Name, api, variadic};
use crate::ffi::key::Open;
use crate::ffi::kind;
use crate::ffi::mark::pointer;

/// The module's own context: payloads come without one.
static CONTEXT: AtomicPtr<raw::RedisModuleCtx> = AtomicPtr::new(ptr::null_mut());

/// Registers the type.
pub fn register(ctx: Ctx<'_>) -> Result<(), &'static str> {
    // No `copy`: a mark belongs to its resource.
    let mut methods = kind::no_methods();
    methods.rdb_load = Some(rdb_load);
    methods.rdb_save = Some(rdb_save);
    methods.aof_rewrite = Some(aof_rewrite);
    methods.mem_usage = Some(mem_usage);
    methods.digest = Some(digest);
    methods.free = Some(free);
    // SAFETY: the new context lives as long as the server.
    let context = unsafe { api!(RedisModule_GetDetachedThreadSafeContext(ctx.raw())) };
    CONTEXT.store(context, Ordering::Relaxed);
    let registered = kind::MARK.register(ctx, c"dlockmark", VERSION, methods);
    if registered { Ok(()) } else { Err("cannot register the type dlockmark") }
}

/// Reads a stored mark. NULL: the bytes are not a mark; the server then refuses the payload or file.
unsafe extern "C" fn rdb_load(io: *mut raw::RedisModuleIO, version: c_int) -> *mut c_void {
    if version != VERSION {
        return ptr::null_mut();
    }
    // With HANDLE_IO_ERRORS a short payload is reported, not fatal.
    let Ok(number) = raw::load_unsigned(io) else { return ptr::null_mut() };
    // SAFETY: this is the callback.
    let key = unsafe { payload::key_of(io) };
    let loaded =
        mark::stored(number).and_then(|fence| fenced_commands::loaded(fence, key, || there(key)));
    loaded.map_or(ptr::null_mut(), pointer)
}

/// The present mark at the key that is loaded, outside of any command of dlock.
fn there(key: Key<'_>) -> Option<Fence> {
    // SAFETY: the module's own context lives as long as the server.
    let ctx = unsafe { Ctx::new(CONTEXT.load(Ordering::Relaxed)) };
    ctx.select(key.db).then_some(())?;
    // A copy of the name: the server's own may be on its stack, where an open key cannot keep it.
    Open::look(ctx, key.db, Name::new(key.name)).mark().ok()?
}

unsafe extern "C" fn rdb_save(io: *mut raw::RedisModuleIO, value: *mut c_void) {
    raw::save_unsigned(io, value.addr() as u64);
}

unsafe extern "C" fn aof_rewrite(
    io: *mut raw::RedisModuleIO,
    key: *mut raw::RedisModuleString,
    value: *mut c_void,
) {
    let emit = variadic!(RedisModule_EmitAOF);
    let fence = value.addr() as c_longlong;
    // SAFETY: the arguments are what the format says, as in `Ctx::replicate_apply`.
    unsafe { emit(io, c"DLOCK.FENCED".as_ptr(), c"sl".as_ptr(), key, fence) };
}

/// Returns the memory of a value: its type and its pointer.
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

/// Frees nothing: the pointer itself is the value.
unsafe extern "C" fn free(_value: *mut c_void) {}

const VERSION: c_int = 1;
