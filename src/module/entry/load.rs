//! The start: the server loads the module.

use std::ffi::{c_char, c_int};

use redis_module::raw;

use super::{
    blocked_clients, commands, config, done_type, events, lock_type, mark_type, migration,
};
use crate::ffi::allocator::ServerAllocator;
use crate::ffi::context::{Ctx, ERR, OK, api, log};
use crate::ffi::info::InfoLines;
use crate::info;
use crate::state::{self, State};

#[global_allocator]
static ALLOCATOR: ServerAllocator = ServerAllocator;

const NAME: &[u8] = b"dlock\0";
/// The version as one number: 1.2.3 is 10203.
const VERSION: c_int = 100;

/// Loads the module; the server calls this.
///
/// # Safety
/// Only the server calls it, as the module interface says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn RedisModule_OnLoad(
    ctx: *mut raw::RedisModuleCtx,
    _argv: *mut *mut raw::RedisModuleString,
    argc: c_int,
) -> c_int {
    // SAFETY: the context is this callback's. Nothing is allocated before this has succeeded.
    let ctx = unsafe {
        let name = NAME.as_ptr().cast::<c_char>();
        if raw::Export_RedisModule_Init(ctx, name, VERSION, raw::REDISMODULE_APIVER_1 as c_int)
            != OK
        {
            return ERR;
        }
        Ctx::new(ctx)
    };
    match load(ctx, argc) {
        Ok(()) => OK,
        Err(why) => {
            state::with(|state| state.store.durability.writer.let_go());
            log(c"warning", &why);
            ERR
        }
    }
}

fn load(ctx: Ctx<'_>, argc: c_int) -> Result<(), String> {
    if argc > 0 {
        return Err("loadmodule takes no arguments; set dlock.max-ttl and the like in the \
                    configuration file, after the loadmodule line"
            .to_owned());
    }
    if let Some(function) = missing_function() {
        return Err(format!(
            "this server is too old: it does not have {function}; dlock needs Redis 7.0 or \
             Valkey 7.2, or later"
        ));
    }
    set_options(ctx, 0);
    lock_type::register(ctx)?;
    done_type::register(ctx)?;
    mark_type::register(ctx)?;
    commands::register(ctx)?;
    config::register(ctx)?;
    // If this fails, the server drops all earlier registrations; so no event may be subscribed to before.
    state::with(State::open_state_file).unwrap_or(Ok(()))?;
    events::subscribe(ctx)?;
    let hears_of_keys = events::listen_to_keys(ctx)?;
    set_options(ctx, migration::listen(ctx));
    // SAFETY: see `context`; the callback lives as long as the server.
    unsafe { api!(RedisModule_RegisterInfoFunc(ctx.raw(), Some(on_info))) };
    let for_waiters = blocked_clients::callbacks(ctx);
    state::with(|state| {
        state.store.memory.look(ctx);
        state.store.alarm.install(ctx, Some(events::on_alarm));
        state.store.blocked.install(for_waiters);
        state.started(hears_of_keys);
    });
    Ok(())
}

fn set_options(ctx: Ctx<'_>, more: u32) {
    let options = raw::REDISMODULE_OPTIONS_HANDLE_IO_ERRORS
        | raw::REDISMODULE_OPTIONS_HANDLE_REPL_ASYNC_LOAD
        | raw::REDISMODULE_OPTION_NO_IMPLICIT_SIGNAL_MODIFIED
        | more;
    // SAFETY: see `context`.
    unsafe { api!(RedisModule_SetModuleOptions(ctx.raw(), options as c_int)) };
}

/// Returns a function of Redis 7.0 that the server lacks. A server with these has the older ones, which the module
/// calls without a check, too.
fn missing_function() -> Option<&'static str> {
    macro_rules! first_missing {
        ($($name:ident),* $(,)?) => {{
            // SAFETY: written once, by `Export_RedisModule_Init`.
            let all = unsafe { [$((stringify!($name), { raw::$name }.is_none())),*] };
            all.into_iter().find_map(|(name, is_missing)| is_missing.then_some(name))
        }};
    }
    first_missing!(
        RedisModule_GetClientUserNameById,
        RedisModule_GetCommand,
        RedisModule_GetCommandKeysWithFlags,
        RedisModule_GetDbIdFromIO,
        RedisModule_GetDbIdFromOptCtx,
        RedisModule_GetKeyNameFromOptCtx,
        RedisModule_KeyAtPosWithFlags,
        RedisModule_LoadConfigs,
        RedisModule_MonotonicMicroseconds,
        RedisModule_RegisterNumericConfig,
        RedisModule_RegisterStringConfig,
        RedisModule_ReplyWithMap,
        RedisModule_SetCommandInfo,
    )
}

unsafe extern "C" fn on_info(raw: *mut raw::RedisModuleInfoCtx, for_crash_report: c_int) {
    // A crash may have happened anywhere: the state may be incomplete.
    if for_crash_report != 0 {
        return;
    }
    // SAFETY: the context is this callback's.
    if let Some(mut lines) = unsafe { InfoLines::begin(raw) } {
        info::write(&mut lines);
    }
}
