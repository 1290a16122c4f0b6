//! The common parts of all types' callbacks: stored bytes are read, rewritten and refused.

use std::ffi::{c_char, c_void};
use std::ptr;

use redis_module::raw;

use dlock_core::Key;

use crate::ffi::context::{api, bytes_of, c_string, variadic};

/// Reads stored bytes, and makes a value of them. NULL, with a line in the log: the server then refuses the
/// payload or the file.
///
/// # Safety
/// The caller is in the callback that loads a value.
pub unsafe fn load(
    io: *mut raw::RedisModuleIO,
    make: impl FnOnce(Key<'_>, &[u8]) -> Result<*mut c_void, String>,
) -> *mut c_void {
    // With HANDLE_IO_ERRORS a short payload is reported, not fatal.
    let Ok(bytes) = raw::load_string_buffer(io) else { return ptr::null_mut() };
    // SAFETY: this is the callback.
    make(unsafe { key_of(io) }, bytes.as_ref()).unwrap_or_else(|why| {
        refuse(io, &why);
        ptr::null_mut()
    })
}

/// The key of the value that is loaded.
///
/// # Safety
/// The caller is in the callback that loads a value, for all of `'k`.
pub unsafe fn key_of<'k>(io: *mut raw::RedisModuleIO) -> Key<'k> {
    // SAFETY: the server keeps the key for the callback.
    unsafe {
        let name = api!(RedisModule_GetKeyNameFromIO(io));
        let name = if name.is_null() { &[][..] } else { bytes_of(name) };
        Key { db: u32::try_from(api!(RedisModule_GetDbIdFromIO(io))).unwrap_or(0), name }
    }
}

/// Logs the reason why a stored value is refused.
pub fn refuse(io: *mut raw::RedisModuleIO, why: &str) {
    let why = c_string(why);
    let log = variadic!(RedisModule_LogIOError);
    // SAFETY: the format takes one C string.
    unsafe { log(io, c"warning".as_ptr(), c"dlock: %s".as_ptr(), why.as_ptr()) };
}

/// Writes a DLOCK.APPLY into a rewritten AOF.
pub fn emit_apply(
    io: *mut raw::RedisModuleIO,
    key: *mut raw::RedisModuleString,
    effect: &[u8],
    meta: &[u8],
) {
    let emit = variadic!(RedisModule_EmitAOF);
    // SAFETY: the arguments are what the format says, as in `Ctx::replicate_apply`.
    unsafe {
        emit(
            io,
            c"DLOCK.APPLY".as_ptr(),
            c"sbb".as_ptr(),
            key,
            effect.as_ptr().cast::<c_char>(),
            effect.len(),
            meta.as_ptr().cast::<c_char>(),
            meta.len(),
        );
    }
}
