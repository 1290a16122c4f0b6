//! A minimal module: the benchmark measures the other module beside it.
//!
//! - `CALLER.KEEP key number`: keeps a number in a type of its own.
//! - `CALLER.PASS key SET key value`: has the server carry out that SET, and passes the reply on.

use std::ffi::{c_char, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use redis_module::raw;

use crate::{Ctx, Str};

/// Set when the module is loaded.
static TYPE: AtomicPtr<raw::RedisModuleType> = AtomicPtr::new(ptr::null_mut());

/// Makes the type.
pub(crate) unsafe fn register(ctx: Ctx) {
    let mut methods = raw::RedisModuleTypeMethods {
        version: raw::REDISMODULE_TYPE_METHOD_VERSION as u64,
        rdb_load: Some(load),
        rdb_save: Some(save),
        aof_rewrite: None,
        free: Some(free),
        mem_usage: None,
        digest: None,
        aux_load: None,
        aux_save: None,
        aux_save_triggers: 0,
        free_effort: None,
        unlink: None,
        copy: None,
        defrag: None,
        mem_usage2: None,
        free_effort2: None,
        unlink2: None,
        copy2: None,
        aux_save2: None,
    };
    // SAFETY: see the top of lib.rs; the server copies the methods.
    let made = unsafe {
        api!(RedisModule_CreateDataType(ctx, c"bare-type".as_ptr(), 0, &raw mut methods))
    };
    TYPE.store(made, Ordering::Relaxed);
}

pub(crate) unsafe extern "C" fn keep(ctx: Ctx, argv: *mut Str, argc: c_int) -> c_int {
    // SAFETY: see the top of lib.rs: three strings, once that is checked.
    unsafe {
        if argc != 3 {
            return api!(RedisModule_WrongArity(ctx));
        }
        let (name, text) = (*argv.add(1), *argv.add(2));
        let mut number = 0;
        api!(RedisModule_StringToLongLong(text, &raw mut number));
        let key = api!(RedisModule_OpenKey(ctx, name, raw::REDISMODULE_WRITE as c_int));
        let value = ptr::without_provenance_mut(number as usize);
        api!(RedisModule_ModuleTypeSetValue(key, TYPE.load(Ordering::Relaxed), value));
        api!(RedisModule_CloseKey(key));
        api!(RedisModule_ReplyWithSimpleString(ctx, c"OK".as_ptr().cast::<c_char>()))
    }
}

pub(crate) unsafe extern "C" fn pass(ctx: Ctx, argv: *mut Str, argc: c_int) -> c_int {
    // SAFETY: see the top of lib.rs: five strings, once that is checked; the format says two.
    unsafe {
        if argc != 5 {
            return api!(RedisModule_WrongArity(ctx));
        }
        let (name, format) = (c"SET".as_ptr(), c"!CSME0ss".as_ptr());
        let call = raw::RedisModule_Call.expect("the server has it");
        let reply = call(ctx, name, format, *argv.add(3), *argv.add(4));
        api!(RedisModule_ReplyWithCallReply(ctx, reply));
        api!(RedisModule_FreeCallReply(reply));
    }
    0
}

unsafe extern "C" fn load(io: *mut raw::RedisModuleIO, _version: c_int) -> *mut c_void {
    // SAFETY: see the top of lib.rs.
    ptr::without_provenance_mut(unsafe { api!(RedisModule_LoadUnsigned(io)) } as usize)
}

unsafe extern "C" fn save(io: *mut raw::RedisModuleIO, value: *mut c_void) {
    // SAFETY: see the top of lib.rs.
    unsafe { api!(RedisModule_SaveUnsigned(io, value.addr() as u64)) };
}

/// The number is in the pointer.
unsafe extern "C" fn free(_value: *mut c_void) {}
