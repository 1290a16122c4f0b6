//! A search of the keyspace for dead locks, or for all locks, a little at a time.
//!
//! Used if the server does not report where a RENAME or a MOVE has put a value.

use std::ffi::c_void;

use redis_module::raw;

use dlock_core::KeyBuf;

use super::block::Block;
use super::context::{Ctx, OK, api, bytes_of};
use super::kind;

/// A search under way.
pub struct Scan {
    cursor: *mut raw::RedisModuleScanCursor,
    db: u32,
    wanted: fn(Block) -> bool,
}

/// The keys found in a step.
struct Found {
    names: Vec<Box<[u8]>>,
    wanted: fn(Block) -> bool,
}

impl Scan {
    /// A search for dead locks, in all databases.
    pub fn new() -> Scan {
        Scan::of(Block::is_dead, 0)
    }

    /// A search for all locks, from this database on.
    pub fn of_all_from(db: u32) -> Scan {
        Scan::of(|_| true, db)
    }

    fn of(wanted: fn(Block) -> bool, db: u32) -> Scan {
        // SAFETY: takes nothing; destroyed when this is dropped.
        Scan { cursor: unsafe { api!(RedisModule_ScanCursorCreate()) }, db, wanted }
    }

    /// Reads a few more keys, and adds the ones with locks. False: there are no more keys.
    pub fn step(&mut self, ctx: Ctx<'_>, found: &mut impl Extend<KeyBuf>) -> bool {
        if !ctx.select(self.db) {
            return false;
        }
        let mut here = Found { names: Vec::new(), wanted: self.wanted };
        let out = (&raw mut here).cast::<c_void>();
        // SAFETY: the cursor is this scan's; only `on_key` gets `here`.
        let more = unsafe { api!(RedisModule_Scan(ctx.raw(), self.cursor, Some(on_key), out)) };
        found.extend(here.names.into_iter().map(|name| KeyBuf { db: self.db, name }));
        if more == OK {
            // Zero says that this database is complete.
            self.db += 1;
            // SAFETY: as above.
            unsafe { api!(RedisModule_ScanCursorRestart(self.cursor)) };
        }
        true
    }
}

impl Drop for Scan {
    fn drop(&mut self) {
        // SAFETY: made by `new`, and not used again.
        unsafe { api!(RedisModule_ScanCursorDestroy(self.cursor)) };
    }
}

unsafe extern "C" fn on_key(
    _ctx: *mut raw::RedisModuleCtx,
    name: *mut raw::RedisModuleString,
    key: *mut raw::RedisModuleKey,
    out: *mut c_void,
) {
    // SAFETY: the server passes an open key, or none, and its name, for this callback; `out` is `step`'s.
    unsafe {
        let block = kind::LOCK.value_at(key).and_then(|value| Block::from_ptr(value));
        if let Some(found) = out.cast::<Found>().as_mut()
            && block.is_some_and(found.wanted)
        {
            found.names.push(bytes_of(name).into());
        }
    }
}
