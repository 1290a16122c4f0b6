//! Configuration: `CONFIG GET` and `CONFIG SET` of `dlock.*`.

use std::ffi::{c_char, c_int, c_longlong, c_void};
use std::ptr;

use redis_module::raw;

use super::context::{Ctx, OK, api};
use crate::settings::{self, Setting};

/// Registers the settings, and takes what the configuration file says.
pub(super) fn register(ctx: Ctx<'_>) -> Result<(), &'static str> {
    for setting in &settings::ALL {
        // SAFETY: the setting is static; so are the callbacks.
        let registered = unsafe {
            api!(RedisModule_RegisterNumericConfig(
                ctx.raw(),
                setting.name.as_ptr(),
                number(setting.default),
                raw::REDISMODULE_CONFIG_DEFAULT,
                1,
                number(setting.most),
                Some(get),
                Some(set),
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

unsafe extern "C" fn get(_name: *const c_char, setting: *mut c_void) -> c_longlong {
    // SAFETY: what `register` gave.
    let setting = unsafe { setting.cast::<Setting>().as_ref() };
    setting.map_or(0, |setting| number(settings::get(setting)))
}

unsafe extern "C" fn set(
    _name: *const c_char,
    value: c_longlong,
    setting: *mut c_void,
    _error: *mut *mut raw::RedisModuleString,
) -> c_int {
    // SAFETY: what `register` gave; the server has checked the bounds.
    if let Some(setting) = unsafe { setting.cast::<Setting>().as_ref() } {
        settings::set(setting, u64::try_from(value).unwrap_or(0));
    }
    OK
}

fn number(n: u64) -> c_longlong {
    c_longlong::try_from(n).unwrap_or(c_longlong::MAX)
}
