//! The callbacks of server events: roles, loading, flushes, connections, and keys.

use std::ffi::{CStr, c_char, c_int, c_void};

use redis_module::raw;

use dlock_core::servers::quirks;
use dlock_core::{ClientId, Key};

use crate::event_loop;
use crate::ffi::context::{Ctx, OK, api, bytes_of};
use crate::server_events::loading::{self, Step};
use crate::server_events::{configuration, disconnections, keys, roles};
use crate::state::{self, State};

type Callback =
    unsafe extern "C" fn(*mut raw::RedisModuleCtx, raw::RedisModuleEvent, u64, *mut c_void);

/// Subscribes to all events that concern locks.
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

/// Subscribes to key events, unless listening does harm. Returns true if it has subscribed.
pub fn listen_to_keys(ctx: Ctx<'_>) -> Result<bool, &'static str> {
    let does_harm = ctx.version().key_events_do_harm();
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
    roles::role_changed(role == raw::REDISMODULE_EVENT_REPLROLECHANGED_NOW_REPLICA);
}

unsafe extern "C" fn on_loading(
    ctx: *mut raw::RedisModuleCtx,
    _event: raw::RedisModuleEvent,
    step: u64,
    _data: *mut c_void,
) {
    let ends = matches!(
        step,
        raw::REDISMODULE_SUBEVENT_LOADING_ENDED | raw::REDISMODULE_SUBEVENT_LOADING_FAILED
    );
    // SAFETY: the context is this callback's; so for the callbacks below.
    loading::loading(unsafe { Ctx::new(ctx) }, !ends);
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
            keys::flushed(u32::try_from(info.dbnum).ok());
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
            keys::swapped(db(info.dbnum_first), db(info.dbnum_second));
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
        disconnections::disconnected(ClientId(info.id));
    }
}

unsafe extern "C" fn on_cron(
    ctx: *mut raw::RedisModuleCtx,
    _event: raw::RedisModuleEvent,
    _step: u64,
    _data: *mut c_void,
) {
    // SAFETY: see `on_loading`.
    event_loop::cron(unsafe { Ctx::new(ctx) });
}

unsafe extern "C" fn on_fork(
    _ctx: *mut raw::RedisModuleCtx,
    _event: raw::RedisModuleEvent,
    _step: u64,
    _data: *mut c_void,
) {
    roles::forked();
}

/// Handles a replica that has connected. When a replica leaves, the module replicates nothing: it may be about
/// to be promoted, and a later write of its primary costs every other replica a full resynchronisation.
unsafe extern "C" fn on_replica(
    _ctx: *mut raw::RedisModuleCtx,
    _event: raw::RedisModuleEvent,
    step: u64,
    _data: *mut c_void,
) {
    if step == raw::REDISMODULE_SUBEVENT_REPLICA_CHANGE_ONLINE {
        roles::replica_may_have_come();
    }
}

unsafe extern "C" fn on_config(
    ctx: *mut raw::RedisModuleCtx,
    _event: raw::RedisModuleEvent,
    _step: u64,
    _data: *mut c_void,
) {
    // SAFETY: see `on_loading`.
    configuration::configured(unsafe { Ctx::new(ctx) });
}

unsafe extern "C" fn on_shutdown(
    _ctx: *mut raw::RedisModuleCtx,
    _event: raw::RedisModuleEvent,
    _step: u64,
    _data: *mut c_void,
) {
    state::with(State::close_state_file);
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
        let in_transaction = || ctx.flags().has(raw::REDISMODULE_CTX_FLAGS_MULTI);
        let elsewhere = quirks::may_name_the_wrong_database(event, in_transaction);
        keys::key_event(event, key, elsewhere);
    }
    OK
}
