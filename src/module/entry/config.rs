//! Configuration: `CONFIG GET` and `CONFIG SET` of `dlock.*`.

use std::ffi::{c_char, c_int, c_longlong, c_void};
use std::ptr;

use redis_module::raw;

use crate::ffi::MainThread;
use crate::ffi::context::{Ctx, ERR, Name, OK, api, bytes_of, c_string};
use crate::settings::{self, Number, Text};

/// Registers the settings, and takes their values from the configuration file.
pub fn register(ctx: Ctx<'_>) -> Result<(), &'static str> {
    for setting in &settings::NUMBERS {
        // SAFETY: the setting is static; so are the callbacks.
        let registered = unsafe {
            api!(RedisModule_RegisterNumericConfig(
                ctx.raw(),
                setting.name.as_ptr(),
                number(setting.default),
                raw::REDISMODULE_CONFIG_DEFAULT,
                number(setting.least),
                number(setting.most),
                Some(get_number),
                Some(set_number),
                None,
                ptr::from_ref(setting).cast_mut().cast::<c_void>()
            ))
        };
        if registered != OK {
            return Err("cannot register a configuration parameter");
        }
    }
    let state_file = format!("dlock-{}.state", ctx.port());
    for (setting, default) in settings::TEXTS.iter().zip(["auto", &state_file]) {
        let flags = if setting.fixed { raw::REDISMODULE_CONFIG_IMMUTABLE } else { 0 };
        let default = c_string(default);
        // SAFETY: as above; the server copies the default.
        let registered = unsafe {
            api!(RedisModule_RegisterStringConfig(
                ctx.raw(),
                setting.name.as_ptr(),
                default.as_ptr(),
                flags,
                Some(get_text),
                Some(set_text),
                None,
                ptr::from_ref(setting).cast_mut().cast::<c_void>()
            ))
        };
        if registered != OK {
            return Err("cannot register a configuration parameter");
        }
    }
    // SAFETY: see `context`.
    let loaded = unsafe { api!(RedisModule_LoadConfigs(ctx.raw())) };
    if loaded == OK { Ok(()) } else { Err("the configuration has a bad dlock parameter") }
}

unsafe extern "C" fn get_number(_name: *const c_char, setting: *mut c_void) -> c_longlong {
    // SAFETY: `register` passed it.
    let setting = unsafe { setting.cast::<Number>().as_ref() };
    setting.map_or(0, |setting| number(settings::get(setting)))
}

unsafe extern "C" fn set_number(
    _name: *const c_char,
    value: c_longlong,
    setting: *mut c_void,
    _error: *mut *mut raw::RedisModuleString,
) -> c_int {
    // SAFETY: `register` passed it; the server has checked the bounds.
    if let Some(setting) = unsafe { setting.cast::<Number>().as_ref() } {
        settings::set(setting, u64::try_from(value).unwrap_or(0));
    }
    OK
}

unsafe extern "C" fn get_text(
    _name: *const c_char,
    setting: *mut c_void,
) -> *mut raw::RedisModuleString {
    // SAFETY: `register` passed it.
    let text = unsafe { setting.cast::<Text>().as_ref() }.map(|setting| (setting.get)());
    // The server takes its own reference, and leaves this one to the module.
    LAST.with(|last| last.insert(Name::new(text.unwrap_or_default().as_bytes())).raw())
        .unwrap_or(ptr::null_mut())
}

/// The last text of `get_text`, valid until the next call.
static LAST: MainThread<Option<Name>> = MainThread::new(None);

unsafe extern "C" fn set_text(
    _name: *const c_char,
    value: *mut raw::RedisModuleString,
    setting: *mut c_void,
    error: *mut *mut raw::RedisModuleString,
) -> c_int {
    // SAFETY: `register` passed it; the value lives for the length of the call; the server frees the error.
    unsafe {
        let Some(setting) = setting.cast::<Text>().as_ref() else { return ERR };
        let Err(why) = (setting.set)(bytes_of(value)) else { return OK };
        if !error.is_null() {
            *error =
                api!(RedisModule_CreateString(ptr::null_mut(), why.as_ptr().cast(), why.len()));
        }
        ERR
    }
}

fn number(n: u64) -> c_longlong {
    c_longlong::try_from(n).unwrap_or(c_longlong::MAX)
}
