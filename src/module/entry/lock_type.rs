//! The callbacks of the type `dlock-key`: a lock is stored, rewritten, freed and weighed.

use std::ffi::{c_int, c_void};
use std::ptr;

use redis_module::raw;

use dlock_core::command::apply::{Granted, write_grant};
use dlock_core::stored::snapshot::{self, Unreadable};
use dlock_core::{Crowd, Grant, Key, Lease, Millis, Mode};

use super::payload;
use crate::ffi::block::{Block, Inside};
use crate::ffi::context::{Ctx, api, bytes_of, now};
use crate::ffi::kind;
use crate::server_events::{keys, loading};

/// Registers the type.
pub fn register(ctx: Ctx<'_>) -> Result<(), &'static str> {
    let mut methods = kind::no_methods();
    methods.rdb_load = Some(rdb_load);
    methods.rdb_save = Some(rdb_save);
    methods.aof_rewrite = Some(aof_rewrite);
    methods.mem_usage2 = Some(mem_usage);
    methods.digest = Some(digest);
    methods.free = Some(free);
    methods.free_effort2 = Some(free_effort);
    methods.unlink2 = Some(unlink);
    let registered =
        kind::LOCK.register(ctx, c"dlock-key", c_int::from(snapshot::VERSION), methods);
    if registered { Ok(()) } else { Err("cannot register the type dlock-key") }
}

/// Reads a stored lock. NULL: the bytes are not a lock; the server then refuses the payload or file.
unsafe extern "C" fn rdb_load(io: *mut raw::RedisModuleIO, version: c_int) -> *mut c_void {
    // A later dlock may store something else than a string.
    if version > c_int::from(snapshot::VERSION) {
        let version = u8::try_from(version).unwrap_or(u8::MAX);
        payload::refuse(io, &unreadable(Unreadable::Version(version)));
        return ptr::null_mut();
    }
    // SAFETY: this is the callback.
    unsafe { payload::load(io, load) }
}

fn load(key: Key<'_>, bytes: &[u8]) -> Result<*mut c_void, String> {
    let (mode, holders) = snapshot::decode(bytes).map_err(unreadable)?;
    let block = build(key, mode, &holders);
    let fence = holders.iter().map(|holder| holder.fence).max();
    let longest = holders.iter().map(|holder| holder.ttl).max();
    match loading::loaded(key, block, fence, longest.unwrap_or(Millis(0))) {
        Ok(()) => Ok(block.as_ptr()),
        Err(why) => {
            block.leave_keyspace();
            Err(why.to_owned())
        }
    }
}

fn unreadable(why: Unreadable) -> String {
    match why {
        Unreadable::Version(version) => {
            format!("a stored lock has version {version}, which a later dlock has written")
        }
        Unreadable::Damaged => "a stored lock is damaged".to_owned(),
    }
}

fn build(key: Key<'_>, mode: Mode, holders: &[Granted<'_>]) -> Block {
    // Each lease begins anew, at full length.
    let lease = |holder: &Granted<'_>| Lease::begin(now(), holder.ttl);
    if let (Mode::Exclusive, [holder]) = (mode, holders) {
        return Block::one(key, &holder.grant(lease(holder)), &mut Vec::new());
    }
    let mut crowd = Crowd::new(mode);
    for holder in holders {
        crowd.add(mode, holder.grant(lease(holder)));
    }
    let block = Block::many(key, crowd);
    if holders.is_empty() {
        // The lock was stored after its lease had been ended.
        block.kill();
    }
    block
}

/// Stores a lock; after a RENAME, say, it may have no holders.
unsafe extern "C" fn rdb_save(io: *mut raw::RedisModuleIO, value: *mut c_void) {
    // SAFETY: the keyspace holds the value during the callback.
    let bytes = unsafe {
        match Block::from_ptr(value).map(|block| block.inside()) {
            Some(Inside::One(_, grant)) => snapshot::encode(Mode::Exclusive, [grant].into_iter()),
            Some(Inside::Many(many)) => snapshot::encode(many.crowd.mode(), many.crowd.grants()),
            Some(Inside::Dead) | None => snapshot::encode(Mode::Exclusive, [].into_iter()),
        }
    };
    raw::save_slice(io, &bytes);
}

unsafe extern "C" fn aof_rewrite(
    io: *mut raw::RedisModuleIO,
    key: *mut raw::RedisModuleString,
    value: *mut c_void,
) {
    // SAFETY: the keyspace holds the value during the callback.
    match unsafe { Block::from_ptr(value).map(|block| block.inside()) } {
        Some(Inside::One(_, grant)) => emit(io, key, Mode::Exclusive, grant),
        Some(Inside::Many(many)) => {
            for grant in many.crowd.grants() {
                emit(io, key, many.crowd.mode(), grant);
            }
        }
        Some(Inside::Dead) | None => {}
    }
}

fn emit(
    io: *mut raw::RedisModuleIO,
    key: *mut raw::RedisModuleString,
    mode: Mode,
    grant: Grant<'_>,
) {
    let mut written = Vec::new();
    write_grant(mode, &grant, &mut written);
    payload::emit_apply(io, key, &written, grant.meta);
}

unsafe extern "C" fn mem_usage(
    _ctx: *mut raw::RedisModuleKeyOptCtx,
    value: *const c_void,
    _samples: usize,
) -> usize {
    // SAFETY: the keyspace holds the value during the callback.
    unsafe { Block::from_ptr(value.cast_mut()).map_or(0, |block| block.size()) }
}

/// Adds the lock to DEBUG DIGEST: two servers agree when their locks have the same holders and fences.
unsafe extern "C" fn digest(digest: *mut raw::RedisModuleDigest, value: *mut c_void) {
    let add = |mode: Mode, grant: Grant<'_>| {
        let mut written = Vec::new();
        write_grant(mode, &grant, &mut written);
        // SAFETY: the server reads the bytes at once.
        unsafe {
            for text in [&written, grant.meta] {
                api!(RedisModule_DigestAddStringBuffer(digest, text.as_ptr().cast(), text.len()));
            }
            api!(RedisModule_DigestEndSequence(digest));
        }
    };
    // SAFETY: the keyspace holds the value during the callback.
    match unsafe { Block::from_ptr(value).map(|block| block.inside()) } {
        Some(Inside::One(_, grant)) => add(Mode::Exclusive, grant),
        Some(Inside::Many(many)) => {
            many.crowd.grants().for_each(|grant| add(many.crowd.mode(), grant));
        }
        Some(Inside::Dead) | None => {}
    }
}

/// Frees a lock: the only callback that may run on another thread.
unsafe extern "C" fn free(value: *mut c_void) {
    // SAFETY: the server gives up the pointer that the keyspace had.
    if let Some(block) = unsafe { Block::from_ptr(value) } {
        block.leave_keyspace();
    }
}

/// Returns the effort to free a lock: the server frees large crowds in the background.
unsafe extern "C" fn free_effort(
    _ctx: *mut raw::RedisModuleKeyOptCtx,
    value: *const c_void,
) -> usize {
    // SAFETY: the keyspace holds the value during the callback.
    unsafe { Block::from_ptr(value.cast_mut()).map_or(1, |block| block.effort()) }
}

/// Handles a value that the server takes from its key: removed, replaced, or moved to another name.
unsafe extern "C" fn unlink(ctx: *mut raw::RedisModuleKeyOptCtx, value: *const c_void) {
    if kind::is_ours(value) {
        return;
    }
    // SAFETY: the keyspace holds the value during the callback; the context is the callback's.
    unsafe {
        let Some(block) = Block::from_ptr(value.cast_mut()) else { return };
        let name = api!(RedisModule_GetKeyNameFromOptCtx(ctx));
        let db = api!(RedisModule_GetDbIdFromOptCtx(ctx));
        let name = if name.is_null() { &[][..] } else { bytes_of(name) };
        keys::unlinked(Key { db: u32::try_from(db).unwrap_or(0), name }, block);
    }
}
