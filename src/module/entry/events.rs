//! The callbacks of the timer and of server events: roles, loading, flushes, connections, and keys.

use std::ffi::{CStr, c_char, c_int, c_void};

use redis_module::raw;

use dlock_core::{ClientId, Key};

use crate::event_loop;
use crate::ffi::context::{Ctx, OK, api, bytes_of};
use crate::server_events::loading::{self, Step};
use crate::server_events::{disconnections, keys, roles};
use crate::state::{self, State};

/// The events that concern locks.
const EVENTS: [u64; 11] = [
    raw::REDISMODULE_EVENT_REPLICATION_ROLE_CHANGED,
    raw::REDISMODULE_EVENT_LOADING,
    raw::REDISMODULE_EVENT_REPL_ASYNC_LOAD,
    raw::REDISMODULE_EVENT_FLUSHDB,
    raw::REDISMODULE_EVENT_SWAPDB,
    raw::REDISMODULE_EVENT_CLIENT_CHANGE,
    raw::REDISMODULE_EVENT_CRON_LOOP,
    raw::REDISMODULE_EVENT_FORK_CHILD,
    raw::REDISMODULE_EVENT_REPLICA_CHANGE,
    raw::REDISMODULE_EVENT_CONFIG,
    raw::REDISMODULE_EVENT_SHUTDOWN,
];

pub type Callback =
    unsafe extern "C" fn(*mut raw::RedisModuleCtx, raw::RedisModuleEvent, u64, *mut c_void);

/// Subscribes to all events that concern locks.
pub fn subscribe(ctx: Ctx<'_>) -> Result<(), &'static str> {
    match EVENTS.into_iter().all(|id| subscribe_to(ctx, id, on_event)) {
        true => Ok(()),
        false => Err("cannot subscribe to a server event"),
    }
}

/// Subscribes to an event. False: the server does not have it.
pub fn subscribe_to(ctx: Ctx<'_>, id: u64, callback: Callback) -> bool {
    let event = raw::RedisModuleEvent { id, dataver: 1 };
    // SAFETY: see `context`; the callback lives as long as the server.
    unsafe { api!(RedisModule_SubscribeToServerEvent(ctx.raw(), event, Some(callback))) == OK }
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

pub unsafe extern "C" fn on_alarm(ctx: *mut raw::RedisModuleCtx, _data: *mut c_void) {
    // SAFETY: the context is this callback's.
    event_loop::timer_fired(unsafe { Ctx::new(ctx) });
}

unsafe extern "C" fn on_event(
    ctx: *mut raw::RedisModuleCtx,
    event: raw::RedisModuleEvent,
    step: u64,
    data: *mut c_void,
) {
    // SAFETY: the context is this callback's.
    let ctx = unsafe { Ctx::new(ctx) };
    match event.id {
        raw::REDISMODULE_EVENT_REPLICATION_ROLE_CHANGED => {
            roles::role_changed(step == raw::REDISMODULE_EVENT_REPLROLECHANGED_NOW_REPLICA);
        }
        raw::REDISMODULE_EVENT_LOADING => {
            let ends =
                [raw::REDISMODULE_SUBEVENT_LOADING_ENDED, raw::REDISMODULE_SUBEVENT_LOADING_FAILED];
            loading::loading(ctx, !ends.contains(&step));
        }
        raw::REDISMODULE_EVENT_REPL_ASYNC_LOAD => {
            let step = match step {
                raw::REDISMODULE_SUBEVENT_REPL_ASYNC_LOAD_STARTED => Step::Begins,
                raw::REDISMODULE_SUBEVENT_REPL_ASYNC_LOAD_COMPLETED => Step::Swapped,
                _ => Step::GivenUp,
            };
            loading::beside(ctx, step);
        }
        raw::REDISMODULE_EVENT_CRON_LOOP => event_loop::cron(ctx),
        raw::REDISMODULE_EVENT_FORK_CHILD => roles::forked(),
        // A replica that leaves gets nothing more: it may be about to be promoted, and a later write of its primary
        // costs every other replica a full resynchronisation.
        raw::REDISMODULE_EVENT_REPLICA_CHANGE
            if step == raw::REDISMODULE_SUBEVENT_REPLICA_CHANGE_ONLINE =>
        {
            roles::replica_has_come();
        }
        raw::REDISMODULE_EVENT_CONFIG => {
            // A log may have begun.
            state::with(|state| {
                state.store.replication.may_have_come();
                state.store.memory.look(ctx);
            });
        }
        raw::REDISMODULE_EVENT_SHUTDOWN => drop(state::with(State::close_state_file)),
        // SAFETY: the event's data are the server's.
        _ => unsafe { on_event_with_data(event.id, step, data) },
    }
}

/// # Safety
/// The data must be those of this event.
unsafe fn on_event_with_data(event: u64, step: u64, data: *mut c_void) {
    match event {
        raw::REDISMODULE_EVENT_FLUSHDB if step == raw::REDISMODULE_SUBEVENT_FLUSHDB_START => {
            // SAFETY: by the function's contract; so for the events below.
            if let Some(info) = unsafe { data.cast::<raw::RedisModuleFlushInfoV1>().as_ref() } {
                keys::flushed(u32::try_from(info.dbnum).ok());
            }
        }
        raw::REDISMODULE_EVENT_SWAPDB => {
            // SAFETY: as above.
            if let Some(info) = unsafe { data.cast::<raw::RedisModuleSwapDbInfoV1>().as_ref() } {
                let db = |n: i32| u32::try_from(n).unwrap_or(0);
                keys::swapped(db(info.dbnum_first), db(info.dbnum_second));
            }
        }
        raw::REDISMODULE_EVENT_CLIENT_CHANGE
            if step == raw::REDISMODULE_SUBEVENT_CLIENT_CHANGE_DISCONNECTED =>
        {
            // SAFETY: as above.
            if let Some(info) = unsafe { data.cast::<raw::RedisModuleClientInfoV1>().as_ref() } {
                disconnections::disconnected(ClientId(info.id));
            }
        }
        _ => {}
    }
}

unsafe extern "C" fn on_key(
    ctx: *mut raw::RedisModuleCtx,
    _class: c_int,
    event: *const c_char,
    key: *mut raw::RedisModuleString,
) -> c_int {
    // SAFETY: the context is this callback's; event and key live for the length of the callback.
    unsafe {
        let ctx = Ctx::new(ctx);
        let key = Key { db: ctx.db(), name: bytes_of(key) };
        let event = CStr::from_ptr(event).to_bytes();
        keys::key_event(event, key);
    }
    OK
}
