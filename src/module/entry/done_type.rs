//! The callbacks of the type `dlockdone`: a mark that a lock is done is stored, rewritten, freed and weighed.

use std::ffi::{c_char, c_int, c_void};
use std::ptr;

use redis_module::raw;

use dlock_core::command::apply::write_done;
use dlock_core::{Done, Key, done};

use crate::ffi::context::{Ctx, api, bytes_of, c_string, server_free, variadic};
use crate::ffi::done::{self as stored, Stored};
use crate::ffi::kind;
use crate::server_events::loading;

/// Registers the type.
pub fn register(ctx: Ctx<'_>) -> Result<(), &'static str> {
    // No `copy`: nobody has done the work of the other key.
    let mut methods = kind::no_methods();
    methods.rdb_load = Some(rdb_load);
    methods.rdb_save = Some(rdb_save);
    methods.aof_rewrite = Some(aof_rewrite);
    methods.mem_usage2 = Some(mem_usage);
    methods.digest = Some(digest);
    methods.free = Some(free);
    let registered = kind::DONE.register(ctx, c"dlockdone", c_int::from(done::VERSION), methods);
    if registered { Ok(()) } else { Err("cannot register the type dlockdone") }
}

/// Reads a stored mark. NULL: the bytes are no mark; the server then refuses the payload or file.
unsafe extern "C" fn rdb_load(io: *mut raw::RedisModuleIO, version: c_int) -> *mut c_void {
    if version != c_int::from(done::VERSION) {
        log(io, "a later dlock has stored a done lock");
        return ptr::null_mut();
    }
    let mut len = 0;
    // SAFETY: the server reads a string and hands over its buffer; with HANDLE_IO_ERRORS a short
    // payload is reported, not fatal.
    let (buffer, failed) = unsafe {
        let buffer = api!(RedisModule_LoadStringBuffer(io, &raw mut len));
        (buffer, api!(RedisModule_IsIOError(io)) != 0)
    };
    if buffer.is_null() {
        return ptr::null_mut();
    }
    // SAFETY: the buffer has `len` bytes and is freed below, after the last use.
    let bytes = unsafe { std::slice::from_raw_parts(buffer.cast::<u8>(), len) };
    let value = if failed { Err("a stored done lock is cut") } else { load(io, bytes) };
    // SAFETY: from LoadStringBuffer, and not used any more.
    unsafe { server_free(buffer.cast()) };
    value.unwrap_or_else(|why| {
        log(io, why);
        ptr::null_mut()
    })
}

fn load(io: *mut raw::RedisModuleIO, bytes: &[u8]) -> Result<*mut c_void, &'static str> {
    let done = Done::decode(bytes).ok_or("a stored done lock is damaged")?;
    // SAFETY: the server knows the key of whatever it loads, and keeps it for the callback.
    let (name, db) = unsafe {
        let name = api!(RedisModule_GetKeyNameFromIO(io));
        let name = if name.is_null() { &[][..] } else { bytes_of(name) };
        (name, api!(RedisModule_GetDbIdFromIO(io)))
    };
    let key = Key { db: u32::try_from(db).unwrap_or(0), name };
    loading::loaded_done(key, done.top)?;
    Ok(Stored::make(name, None, bytes.into()))
}

fn log(io: *mut raw::RedisModuleIO, why: &str) {
    let why = c_string(why);
    let log = variadic!(RedisModule_LogIOError);
    // SAFETY: the format takes one C string.
    unsafe { log(io, c"warning".as_ptr(), c"dlock: %s".as_ptr(), why.as_ptr()) };
}

unsafe extern "C" fn rdb_save(io: *mut raw::RedisModuleIO, value: *mut c_void) {
    // SAFETY: the keyspace holds the value during the callback; the server copies the bytes.
    unsafe {
        let bytes = Stored::at(value).map_or(&[][..], Stored::bytes);
        api!(RedisModule_SaveStringBuffer(io, bytes.as_ptr().cast(), bytes.len()));
    }
}

/// Rewrites a mark without its expiry, which the server writes itself.
unsafe extern "C" fn aof_rewrite(
    io: *mut raw::RedisModuleIO,
    key: *mut raw::RedisModuleString,
    value: *mut c_void,
) {
    // SAFETY: the keyspace holds the value during the callback.
    let Some(done) = unsafe { Stored::at(value) }.and_then(Stored::done) else { return };
    let emit = variadic!(RedisModule_EmitAOF);
    let mut written = Vec::new();
    write_done(&done, None, &mut written);
    // SAFETY: the arguments are what the format says, as in `Ctx::replicate_apply`.
    unsafe {
        emit(
            io,
            c"DLOCK.APPLY".as_ptr(),
            c"sbb".as_ptr(),
            key,
            written.as_ptr().cast::<c_char>(),
            written.len(),
            done.meta.as_ptr().cast::<c_char>(),
            done.meta.len(),
        );
    }
}

unsafe extern "C" fn mem_usage(
    _ctx: *mut raw::RedisModuleKeyOptCtx,
    value: *const c_void,
    _samples: usize,
) -> usize {
    // SAFETY: the keyspace holds the value during the callback.
    unsafe { Stored::at(value) }.map_or(0, Stored::size)
}

unsafe extern "C" fn digest(digest: *mut raw::RedisModuleDigest, value: *mut c_void) {
    // SAFETY: the keyspace holds the value during the callback; the server reads the bytes at once.
    unsafe {
        let bytes = Stored::at(value).map_or(&[][..], Stored::bytes);
        api!(RedisModule_DigestAddStringBuffer(digest, bytes.as_ptr().cast(), bytes.len()));
        api!(RedisModule_DigestEndSequence(digest));
    }
}

/// Frees a mark, perhaps on another thread.
unsafe extern "C" fn free(value: *mut c_void) {
    // SAFETY: the server gives up the pointer that the keyspace had.
    unsafe { stored::free(value) };
}
