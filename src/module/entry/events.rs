//! What the server tells: roles, loading, flushes, connections, and what happens to keys.

use std::ffi::{CStr, c_char, c_int, c_void};

use redis_module::raw;

use dlock_core::{ClientId, Key};

use crate::ffi::context::{Ctx, OK, api, bytes_of};
use crate::loading::{self, Loading, Step};
use crate::outside;

type Callback =
    unsafe extern "C" fn(*mut raw::RedisModuleCtx, raw::RedisModuleEvent, u64, *mut c_void);

/// Subscribes to everything that matters to locks.
pub fn subscribe(ctx: Ctx<'_>) -> Result<(), &'static str> {
    let events: [(u64, Callback); 11] = [
        (raw::REDISMODULE_EVENT_REPLICATION_ROLE_CHANGED, on_role),
        (raw::REDISMODULE_EVENT_LOADING, on_loading),
        (raw::REDISMODULE_EVENT_REPL_ASYNC_LOAD, on_async_load),
        (raw::REDISMODULE_EVENT_FLUSHDB, on_flush),
        (raw::REDISMODULE_EVENT_SWAPDB, on_swap),
        (raw::REDISMODULE_EVENT_CLIENT_CHANGE, on_client),
        (raw::REDISMODULE_EVENT_CRON_LOOP, on_cron),
        (raw::REDISMODULE_EVENT_FORK_CHILD, on_fork),
        (raw::REDISMODULE_EVENT_REPLICA_CHANGE, on_replica),
        (raw::REDISMODULE_EVENT_CONFIG, on_config),
        (raw::REDISMODULE_EVENT_SHUTDOWN, on_shutdown),
    ];
    for (id, callback) in events {
        let event = raw::RedisModuleEvent { id, dataver: 1 };
        // SAFETY: see `context`; the callback lives as long as the server.
        let subscribed =
            unsafe { api!(RedisModule_SubscribeToServerEvent(ctx.raw(), event, Some(callback))) };
        if subscribed != OK {
            return Err("cannot subscribe to a server event");
        }
    }
    Ok(())
}

/// Looks at every command, for the one that switches the log.
pub fn watch_commands(ctx: Ctx<'_>) -> Result<(), &'static str> {
    // SAFETY: see `context`; the callback lives as long as the server.
    let filter = unsafe { api!(RedisModule_RegisterCommandFilter(ctx.raw(), Some(on_command), 0)) };
    if filter.is_null() { Err("cannot look at commands") } else { Ok(()) }
}

unsafe extern "C" fn on_command(filter: *mut raw::RedisModuleCommandFilterCtx) {
    // SAFETY: the context and its arguments live for the length of the callback.
    unsafe {
        let arg = |at| bytes_of(api!(RedisModule_CommandFilterArgGet(filter, at)));
        let count = api!(RedisModule_CommandFilterArgsCount(filter));
        let is = |at, word: &[u8]| arg(at).eq_ignore_ascii_case(word);
        if count < 4 || !is(0, b"config") || !is(1, b"set") {
            return;
        }
        let mut names = (2..count).step_by(2);
        if names.any(|at| is(at, b"appendonly")) {
            outside::log_is_switched();
        }
    }
}

/// Subscribes to what happens to keys, unless listening does harm. Whether it does not.
///
/// Valkey 8.1 tells events on the connection whose command it carries out, in the database of the
/// key, and leaves the connection there. After a MOVE or a COPY into another database the client
/// would go on in that one, and replicas would carry the MOVE out there.
pub fn listen_to_keys(ctx: Ctx<'_>) -> Result<bool, &'static str> {
    let valkey = ctx.server_version(c"valkey_version");
    let does_harm = valkey.is_some_and(|version| version.starts_with(b"8.1."));
    // Evictions come before a command or after it, never from it.
    let mut classes = raw::REDISMODULE_NOTIFY_EVICTED;
    if !does_harm {
        classes |= raw::REDISMODULE_NOTIFY_GENERIC | raw::REDISMODULE_NOTIFY_EXPIRED;
    }
    // SAFETY: as above.
    let subscribed = unsafe {
        api!(RedisModule_SubscribeToKeyspaceEvents(ctx.raw(), classes as c_int, Some(on_key)))
    };
    if subscribed == OK { Ok(!does_harm) } else { Err("cannot subscribe to keyspace events") }
}

unsafe extern "C" fn on_role(
    _ctx: *mut raw::RedisModuleCtx,
    _event: raw::RedisModuleEvent,
    role: u64,
    _data: *mut c_void,
) {
    outside::role_changed(role == raw::REDISMODULE_EVENT_REPLROLECHANGED_NOW_REPLICA);
}

unsafe extern "C" fn on_loading(
    ctx: *mut raw::RedisModuleCtx,
    _event: raw::RedisModuleEvent,
    step: u64,
    _data: *mut c_void,
) {
    let step = match step {
        raw::REDISMODULE_SUBEVENT_LOADING_AOF_START => Loading::Log,
        raw::REDISMODULE_SUBEVENT_LOADING_ENDED | raw::REDISMODULE_SUBEVENT_LOADING_FAILED => {
            Loading::Ended
        }
        _ => Loading::Other,
    };
    // SAFETY: the context is this callback's; so for the callbacks below.
    loading::loading(unsafe { Ctx::new(ctx) }, step);
}

unsafe extern "C" fn on_async_load(
    ctx: *mut raw::RedisModuleCtx,
    _event: raw::RedisModuleEvent,
    step: u64,
    _data: *mut c_void,
) {
    let step = match step {
        raw::REDISMODULE_SUBEVENT_REPL_ASYNC_LOAD_STARTED => Step::Begins,
        raw::REDISMODULE_SUBEVENT_REPL_ASYNC_LOAD_COMPLETED => Step::Swapped,
        _ => Step::GivenUp,
    };
    // SAFETY: see `on_loading`.
    loading::beside(unsafe { Ctx::new(ctx) }, step);
}

unsafe extern "C" fn on_flush(
    _ctx: *mut raw::RedisModuleCtx,
    _event: raw::RedisModuleEvent,
    step: u64,
    data: *mut c_void,
) {
    if step != raw::REDISMODULE_SUBEVENT_FLUSHDB_START {
        return;
    }
    // SAFETY: the data of this event is a flush info.
    unsafe {
        if let Some(info) = data.cast::<raw::RedisModuleFlushInfoV1>().as_ref() {
            outside::flushed(u32::try_from(info.dbnum).ok());
        }
    }
}

unsafe extern "C" fn on_swap(
    _ctx: *mut raw::RedisModuleCtx,
    _event: raw::RedisModuleEvent,
    _step: u64,
    data: *mut c_void,
) {
    // SAFETY: the data of this event is a swap info.
    unsafe {
        if let Some(info) = data.cast::<raw::RedisModuleSwapDbInfoV1>().as_ref() {
            let db = |n: i32| u32::try_from(n).unwrap_or(0);
            outside::swapped(db(info.dbnum_first), db(info.dbnum_second));
        }
    }
}

unsafe extern "C" fn on_client(
    _ctx: *mut raw::RedisModuleCtx,
    _event: raw::RedisModuleEvent,
    step: u64,
    data: *mut c_void,
) {
    if step != raw::REDISMODULE_SUBEVENT_CLIENT_CHANGE_DISCONNECTED {
        return;
    }
    // SAFETY: the data of this event is a client info.
    if let Some(info) = unsafe { data.cast::<raw::RedisModuleClientInfoV1>().as_ref() } {
        outside::disconnected(ClientId(info.id));
    }
}

unsafe extern "C" fn on_cron(
    ctx: *mut raw::RedisModuleCtx,
    _event: raw::RedisModuleEvent,
    _step: u64,
    _data: *mut c_void,
) {
    // SAFETY: see `on_loading`.
    outside::cron(unsafe { Ctx::new(ctx) });
}

unsafe extern "C" fn on_fork(
    _ctx: *mut raw::RedisModuleCtx,
    _event: raw::RedisModuleEvent,
    _step: u64,
    _data: *mut c_void,
) {
    outside::forked();
}

/// Nothing is replicated because a replica has left: it may be about to lead, and what its primary
/// writes after that costs every other replica a full resynchronisation.
unsafe extern "C" fn on_replica(
    _ctx: *mut raw::RedisModuleCtx,
    _event: raw::RedisModuleEvent,
    step: u64,
    _data: *mut c_void,
) {
    if step == raw::REDISMODULE_SUBEVENT_REPLICA_CHANGE_ONLINE {
        outside::audience();
    }
}

unsafe extern "C" fn on_config(
    ctx: *mut raw::RedisModuleCtx,
    _event: raw::RedisModuleEvent,
    _step: u64,
    _data: *mut c_void,
) {
    // SAFETY: see `on_loading`.
    outside::configured(unsafe { Ctx::new(ctx) });
}

unsafe extern "C" fn on_shutdown(
    _ctx: *mut raw::RedisModuleCtx,
    _event: raw::RedisModuleEvent,
    _step: u64,
    _data: *mut c_void,
) {
    outside::shut_down();
}

unsafe extern "C" fn on_key(
    ctx: *mut raw::RedisModuleCtx,
    _class: c_int,
    event: *const c_char,
    key: *mut raw::RedisModuleString,
) -> c_int {
    // SAFETY: see `on_loading`; event and key live for the length of the callback.
    unsafe {
        let ctx = Ctx::new(ctx);
        let key = Key { db: ctx.db(), name: bytes_of(key) };
        let event = CStr::from_ptr(event).to_bytes();
        // In a transaction, Valkey 9 says that a key has moved to the database that it comes from.
        let elsewhere = event == b"move_to" && ctx.flags().has(raw::REDISMODULE_CTX_FLAGS_MULTI);
        outside::key_event(event, key, elsewhere);
    }
    OK
}
