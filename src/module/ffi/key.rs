//! An open key, and its value.

use std::ffi::{c_int, c_longlong, c_void};
use std::marker::PhantomData;
use std::ptr;

use redis_module::raw;

use dlock_core::lock::{Found, Holders};
use dlock_core::{Crowd, Deadline, Done, Grant, Key, Millis};

use super::block::{Block, Inside};
use super::context::{Ctx, Name, OK, api};
use super::done::{self, Stored};
use super::kind;

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
        (self.block, self.is_open) = (block_of(self.raw), true);
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

    /// The lock's completion record.
    fn done(&self) -> Option<Done<'_>> {
        // SAFETY: the key is open, and not empty; `Stored::make` has made a value of our type. The keyspace
        // holds it until this key changes, which takes `&mut self`.
        unsafe {
            let is_done = kind::DONE.is_at(self.raw);
            is_done.then(|| Stored::at(api!(RedisModule_ModuleTypeGetValue(self.raw))))??.done()
        }
    }

    /// Stores a completion record.
    pub fn put_done(&mut self, done: &Done<'_>) {
        let value = Stored::make(self.name.bytes(), done);
        // SAFETY: the key is open for writing; the server owns the value from now on, and
        // gives it back through the type's `free`.
        let set = kind::ours(self.value(), || unsafe {
            api!(RedisModule_ModuleTypeSetValue(self.raw, kind::DONE.get(), value))
        });
        self.block = None;
        if set != OK {
            // SAFETY: the server has not taken it.
            unsafe { done::free(value) }
        }
    }

    /// True if the key has a completion record.
    pub fn is_done(&self) -> bool {
        self.is_open && !self.raw.is_null() && self.done().is_some()
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

    /// Replaces the grant by the `renewed` one. Calls `before` with the old block while the keyspace still
    /// holds it; returns the new block.
    pub fn renew_one(
        &mut self,
        renewed: &Grant<'_>,
        scratch: &mut Vec<u8>,
        before: impl FnOnce(Block),
    ) -> Option<Block> {
        let old = self.block()?;
        // SAFETY: the keyspace holds the old block until `leave_keyspace` below.
        let Inside::One(..) = (unsafe { old.inside() }) else { return None };
        let new = Block::one(self.key(), renewed, scratch);
        before(old);
        let mut replaced: *mut c_void = ptr::null_mut();
        // SAFETY: the key is open for writing and has a value of our type; the server swaps the
        // pointers and frees nothing.
        let swapped = unsafe {
            api!(RedisModule_ModuleTypeReplaceValue(
                self.raw,
                kind::LOCK.get(),
                new.as_ptr(),
                &raw mut replaced
            ))
        };
        if swapped != OK {
            new.leave_keyspace();
            return None;
        }
        old.leave_keyspace();
        self.block = Some(new);
        Some(new)
    }

    /// Corrects the key in the value, if it was read with a wrong database. An exclusive lock gets a new block,
    /// as if it were renewed.
    pub fn correct(&mut self, scratch: &mut Vec<u8>, before: impl FnOnce(Block)) -> Option<Block> {
        // SAFETY: the keyspace holds the block; no other reference into it is in use.
        match unsafe { self.block()?.inside() } {
            Inside::One(_, grant) => self.renew_one(&grant, scratch, before),
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
        // SAFETY: the key is open for writing; the server owns the value from now on, and
        // gives it back through the type's `free`.
        let set = kind::ours(self.value(), || unsafe {
            api!(RedisModule_ModuleTypeSetValue(self.raw, kind::LOCK.get(), block.as_ptr()))
        });
        self.block = (set == OK).then_some(block);
        if set != OK {
            block.leave_keyspace();
        }
    }

    /// The pointer that the server keeps for the lock.
    fn value(&self) -> *mut c_void {
        self.block.map_or(ptr::null_mut(), Block::as_ptr)
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

/// The value of an open key, if it is a lock of dlock.
fn block_of(key: *mut raw::RedisModuleKey) -> Option<Block> {
    if key.is_null() {
        return None;
    }
    // SAFETY: the key is open; the value has been set by this module, as its type says.
    unsafe {
        if !kind::LOCK.is_at(key) {
            return None;
        }
        Block::from_ptr(api!(RedisModule_ModuleTypeGetValue(key)))
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.close();
    }
}

const NO_EXPIRE: raw::mstime_t = raw::REDISMODULE_NO_EXPIRE as raw::mstime_t;
const EMPTY: c_int = raw::REDISMODULE_KEYTYPE_EMPTY as c_int;
const STRING: c_int = raw::REDISMODULE_KEYTYPE_STRING as c_int;
