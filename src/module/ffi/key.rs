//! An open key, and its value.

use std::ffi::{c_int, c_longlong, c_void};
use std::marker::PhantomData;
use std::ptr;

use redis_module::raw;

use dlock_core::lock::{Found, Holders};
use dlock_core::{Crowd, Deadline, Done, Fence, Grant, Key, Millis, Reason};

use super::block::{Block, Inside};
use super::context::{Ctx, Name, OK, api};
use super::done::{self, Stored};
use super::kind::{self, ValueKind};
use super::mark;

/// A key that is open within a callback; its name lives as long.
///
/// A call into the server that reads keys, or lets other modules change them, can free an open key: close it
/// before, and open it again for the next use.
pub struct Open<'c> {
    /// NULL: the key is empty or closed.
    raw: *mut raw::RedisModuleKey,
    is_open: bool,
    mode: u32,
    name: Name,
    db: u32,
    /// The value, if it is a lock of dlock. While the key is open only this object changes it.
    block: Option<Block>,
    callback: PhantomData<Ctx<'c>>,
}

impl<'c> Open<'c> {
    /// Opens the key for reading.
    pub fn read(ctx: Ctx<'c>, db: u32, name: Name) -> Open<'c> {
        Open::with_mode(ctx, db, name, raw::REDISMODULE_READ)
    }

    /// Opens the key for reading during a load, without events and statistics.
    pub fn look(ctx: Ctx<'c>, db: u32, name: Name) -> Open<'c> {
        Open::with_mode(ctx, db, name, raw::REDISMODULE_READ | SILENTLY)
    }

    /// Opens the key for reading and writing.
    pub fn write(ctx: Ctx<'c>, db: u32, name: Name) -> Open<'c> {
        Open::with_mode(ctx, db, name, raw::REDISMODULE_READ | raw::REDISMODULE_WRITE)
    }

    /// A closed key without a name.
    pub fn nowhere() -> Open<'c> {
        Open::closed(u32::MAX, Name::new(b""), raw::REDISMODULE_READ)
    }

    fn with_mode(ctx: Ctx<'c>, db: u32, name: Name, mode: u32) -> Open<'c> {
        let mut open = Open::closed(db, name, mode);
        open.open(ctx);
        open
    }

    fn closed(db: u32, name: Name, mode: u32) -> Open<'c> {
        let (raw, callback) = (ptr::null_mut(), PhantomData);
        Open { raw, is_open: false, mode, name, db, block: None, callback }
    }

    fn open(&mut self, ctx: Ctx<'c>) {
        // SAFETY: see `context`; a NULL answer is a missing key.
        self.raw =
            unsafe { api!(RedisModule_OpenKey(ctx.raw(), self.name.raw(), self.mode as c_int)) }
                .cast();
        // SAFETY: the key is open; the value has been set by this module, as its type says.
        self.block =
            unsafe { kind::LOCK.value_at(self.raw).and_then(|value| Block::from_ptr(value)) };
        self.is_open = true;
    }

    /// Closes the key, and keeps its name.
    pub fn close(&mut self) {
        if !self.raw.is_null() {
            // SAFETY: open until now, and not used again.
            unsafe { api!(RedisModule_CloseKey(self.raw)) };
        }
        self.raw = ptr::null_mut();
        (self.is_open, self.block) = (false, None);
    }

    /// Opens the key again.
    pub fn reopen(&mut self, ctx: Ctx<'c>) {
        ctx.select(self.db);
        self.open(ctx);
    }

    /// True if the key is open.
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    pub fn name(&self) -> &Name {
        &self.name
    }

    /// True if it is this key: usually by the address of its name, because a command has one key.
    pub fn is(&self, key: Key<'_>) -> bool {
        key.db == self.db && (ptr::eq(key.name, self.name.bytes()) || key == self.key())
    }

    /// The key, as the node sees it.
    pub fn key(&self) -> Key<'_> {
        Key { db: self.db, name: self.name.bytes() }
    }

    /// The block of a lock.
    pub fn block(&self) -> Option<Block> {
        self.block
    }

    /// The end of the first lease.
    pub fn first_end(&self) -> Option<Deadline> {
        // SAFETY: the keyspace holds the block as long as it is here.
        self.block.and_then(|block| unsafe { block.first_end() })
    }

    /// The content of the key.
    pub fn found(&mut self) -> Found<'_> {
        let Some(block) = self.block() else { return self.found_other() };
        // SAFETY: the keyspace holds the block until this key changes, which takes `&mut self`.
        match unsafe { block.inside() } {
            Inside::One(_, grant) => Found::Held(Holders::One(grant)),
            Inside::Many(gathering) if gathering.crowd.is_empty() => Found::Free,
            Inside::Many(gathering) => Found::Held(Holders::Many(&mut gathering.crowd)),
            Inside::Dead => Found::Over { top: block.top() },
        }
    }

    fn found_other(&self) -> Found<'_> {
        match self.kind() {
            EMPTY => Found::Free,
            STRING => Found::Foreign { left: self.left() },
            _ => match self.done() {
                Some(done) => Found::Done { done, left: self.left() },
                None => Found::WrongType,
            },
        }
    }

    /// The largest fence that the mark at the key has seen; `None`: the key is empty.
    ///
    /// # Errors
    /// Fails if the key holds other data.
    pub fn mark(&self) -> Result<Option<Fence>, Reason> {
        // SAFETY: the key is open, or NULL.
        match unsafe { kind::MARK.value_at(self.raw) } {
            Some(value) => Ok(mark::fence_of(value)),
            None if self.kind() == EMPTY => Ok(None),
            None => Err(Reason::WrongType),
        }
    }

    /// Sets the mark to this fence, or makes one.
    pub fn put_mark(&mut self, fence: Fence) {
        if !self.replace_value(&kind::MARK, mark::pointer(fence)) {
            self.set_value(&kind::MARK, mark::pointer(fence));
        }
    }

    /// The lock's completion record.
    fn done(&self) -> Option<Done<'_>> {
        // SAFETY: the key is open, or NULL; `Stored::make` has made a value of our type. The keyspace holds it
        // until this key changes, which takes `&mut self`.
        unsafe { kind::DONE.value_at(self.raw).and_then(|value| Stored::at(value))?.done() }
    }

    /// Stores a completion record.
    pub fn put_done(&mut self, done: &Done<'_>) {
        let value = Stored::make(self.name.bytes(), done);
        if !self.set_value(&kind::DONE, value) {
            // SAFETY: the server has not taken it.
            unsafe { done::free(value) }
        }
    }

    /// True if the key has a completion record.
    pub fn is_done(&self) -> bool {
        self.done().is_some()
    }

    /// Stores an exclusive lock.
    pub fn put_one(&mut self, grant: &Grant<'_>, scratch: &mut Vec<u8>) -> Block {
        let block = Block::one(self.key(), grant, scratch);
        self.set(block);
        block
    }

    /// Stores a crowd.
    pub fn put_many(&mut self, crowd: Crowd) -> Block {
        let block = Block::many(self.key(), crowd);
        self.set(block);
        block
    }

    /// Replaces the grant by the `renewed` one, and returns the new block. No index may have the old one.
    pub fn renew_one(&mut self, renewed: &Grant<'_>, scratch: &mut Vec<u8>) -> Option<Block> {
        let old = self.block()?;
        // SAFETY: the keyspace holds the old block until `leave_keyspace` below.
        let Inside::One(..) = (unsafe { old.inside() }) else { return None };
        let new = Block::one(self.key(), renewed, scratch);
        if !self.replace_value(&kind::LOCK, new.as_ptr()) {
            new.leave_keyspace();
            return None;
        }
        old.leave_keyspace();
        self.block = Some(new);
        Some(new)
    }

    /// Corrects the key in the value, if it was read with a wrong database. An exclusive lock gets a new block,
    /// as if it were renewed. No index may have the old one.
    pub fn correct(&mut self, scratch: &mut Vec<u8>) -> Option<Block> {
        // SAFETY: the keyspace holds the block; no other reference into it is in use.
        match unsafe { self.block()?.inside() } {
            Inside::One(_, grant) => self.renew_one(&grant, scratch),
            Inside::Many(gathering) => {
                gathering.key = self.key().to_owned();
                None
            }
            Inside::Dead => None,
        }
    }

    /// Removes the value; the server frees a large crowd in the background.
    pub fn remove(&mut self) {
        kind::ours(self.value(), || {
            // SAFETY: the key is open for writing.
            unsafe { api!(RedisModule_UnlinkKey(self.raw)) };
        });
        self.block = None;
    }

    /// Sets the key's expiry to a Unix time.
    pub fn expire_at(&mut self, unix_ms: u64) {
        let at = c_longlong::try_from(unix_ms).unwrap_or(c_longlong::MAX);
        // SAFETY: the key is open for writing.
        unsafe { api!(RedisModule_SetAbsExpire(self.raw, at)) };
    }

    /// Removes the key's expiry. False: it had none.
    pub fn forget_expiry(&mut self) -> bool {
        // SAFETY: the key is open for writing.
        unsafe {
            api!(RedisModule_GetExpire(self.raw)) != NO_EXPIRE
                && api!(RedisModule_SetExpire(self.raw, NO_EXPIRE)) == OK
        }
    }

    fn set(&mut self, block: Block) {
        if self.set_value(&kind::LOCK, block.as_ptr()) {
            self.block = Some(block);
        } else {
            block.leave_keyspace();
        }
    }

    /// Stores a value, which the server owns from now on, and gives back through its type's `free`. False: the server
    /// has not taken it.
    fn set_value(&mut self, kind: &ValueKind, value: *mut c_void) -> bool {
        // SAFETY: the key is open for writing.
        let set = kind::ours(self.value(), || unsafe {
            api!(RedisModule_ModuleTypeSetValue(self.raw, kind.get(), value))
        });
        self.block = None;
        set == OK
    }

    /// Replaces the value by another one of its type. The server frees nothing. False: the key has no such value.
    fn replace_value(&mut self, kind: &ValueKind, value: *mut c_void) -> bool {
        let mut old: *mut c_void = ptr::null_mut();
        // SAFETY: the key is open for writing; the server checks the type of the present value.
        let replaced = unsafe {
            api!(RedisModule_ModuleTypeReplaceValue(self.raw, kind.get(), value, &raw mut old))
        };
        replaced == OK
    }

    /// The pointer that the server keeps for the lock or the mark.
    fn value(&self) -> *mut c_void {
        // SAFETY: the key is open, or NULL.
        let mark = || unsafe { kind::MARK.value_at(self.raw) };
        self.block.map(Block::as_ptr).or_else(mark).unwrap_or(ptr::null_mut())
    }

    fn kind(&self) -> c_int {
        // SAFETY: the key is open, or NULL, which the server takes for empty.
        unsafe { api!(RedisModule_KeyType(self.raw)) }
    }

    fn left(&self) -> Option<Millis> {
        // SAFETY: the key is open.
        let left = unsafe { api!(RedisModule_GetExpire(self.raw)) };
        u64::try_from(left).ok().map(Millis)
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.close();
    }
}

/// Redis 7.0 has neither of these.
const SILENTLY: u32 = raw::REDISMODULE_OPEN_KEY_NONOTIFY | raw::REDISMODULE_OPEN_KEY_NOSTATS;
const NO_EXPIRE: raw::mstime_t = raw::REDISMODULE_NO_EXPIRE as raw::mstime_t;
const EMPTY: c_int = raw::REDISMODULE_KEYTYPE_EMPTY as c_int;
const STRING: c_int = raw::REDISMODULE_KEYTYPE_STRING as c_int;
