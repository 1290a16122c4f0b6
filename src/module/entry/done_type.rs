//! The callbacks of the type `dlockdone`: a completion record is stored, rewritten, freed and weighed.

use std::ffi::{c_int, c_void};
use std::ptr;

use redis_module::raw;

use dlock_core::command::apply::write_done;
use dlock_core::lock::done::{self, Done};

use super::payload;
use crate::ffi::context::{Ctx, api};
use crate::ffi::done::{self as stored, Stored};
use crate::ffi::kind;
use crate::server_events::loading;

/// Registers the type.
pub fn register(ctx: Ctx<'_>) -> Result<(), &'static str> {
    // No `copy`: the other key's work has not been done.
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

/// Reads a stored completion record. NULL: the bytes are not a record; the server then refuses the payload or
/// file.
unsafe extern "C" fn rdb_load(io: *mut raw::RedisModuleIO, version: c_int) -> *mut c_void {
    if version != c_int::from(done::VERSION) {
        payload::refuse(io, "a later dlock has stored a done lock");
        return ptr::null_mut();
    }
    // SAFETY: this is the callback.
    unsafe {
        payload::load(io, |key, bytes| {
            let mut done = Done::decode(bytes).ok_or("a stored done lock is damaged")?;
            loading::loaded_done(key, &mut done)?;
            Ok(Stored::make(key.name, &done))
        })
    }
}

unsafe extern "C" fn rdb_save(io: *mut raw::RedisModuleIO, value: *mut c_void) {
    // SAFETY: the keyspace holds the value during the callback.
    raw::save_slice(io, unsafe { Stored::at(value) }.map_or(&[], Stored::bytes));
}

/// Rewrites a record without its expiry, which the server writes itself.
unsafe extern "C" fn aof_rewrite(
    io: *mut raw::RedisModuleIO,
    key: *mut raw::RedisModuleString,
    value: *mut c_void,
) {
    // SAFETY: the keyspace holds the value during the callback.
    let Some(done) = unsafe { Stored::at(value) }.and_then(Stored::done) else { return };
    let mut written = Vec::new();
    write_done(&done, None, &mut written);
    payload::emit_apply(io, key, &written, done.meta);
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

/// Frees a record, perhaps on another thread.
unsafe extern "C" fn free(value: *mut c_void) {
    // SAFETY: the server gives up the pointer that the keyspace had.
    unsafe { stored::free(value) };
}
