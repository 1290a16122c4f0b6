//! The two types of values that the module adds to the server: locks and marks.

use std::cell::Cell;
use std::ffi::{CStr, c_int};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use redis_module::raw;

use super::MainThread;
use super::context::{Ctx, api};

/// A type of values. The server knows it by a pointer.
pub struct ValueKind(AtomicPtr<raw::RedisModuleType>);

/// The type `dlock-key`: locks.
pub static LOCK: ValueKind = ValueKind::unregistered();
/// The type `dlockmark`: marks.
pub static MARK: ValueKind = ValueKind::unregistered();

/// The callbacks of a type. Those that stay NULL are absent.
pub type Methods = raw::RedisModuleTypeMethods;

/// No callbacks, in the layout of Redis 7.0: later fields are not read by it, and not needed here.
pub fn no_methods() -> Methods {
    // SAFETY: all zeros are NULL callbacks, which the server takes for absent ones.
    let mut methods: Methods = unsafe { std::mem::zeroed() };
    methods.version = 4;
    methods
}

impl ValueKind {
    const fn unregistered() -> ValueKind {
        ValueKind(AtomicPtr::new(ptr::null_mut()))
    }

    /// Registers the type. `version` is that of the payloads which it writes. False: the server
    /// refuses it.
    pub fn register(
        &self,
        ctx: Ctx<'_>,
        name: &CStr,
        version: c_int,
        mut methods: Methods,
    ) -> bool {
        // SAFETY: see `context`; the server copies name and methods.
        let kind = unsafe {
            api!(RedisModule_CreateDataType(ctx.raw(), name.as_ptr(), version, &raw mut methods))
        };
        self.0.store(kind, Ordering::Relaxed);
        !kind.is_null()
    }

    /// The type, as the server knows it.
    pub fn get(&self) -> *mut raw::RedisModuleType {
        self.0.load(Ordering::Relaxed)
    }

    /// Whether the value of an open key is of this type.
    ///
    /// # Safety
    /// The key must be open.
    pub unsafe fn is_at(&self, key: *mut raw::RedisModuleKey) -> bool {
        // SAFETY: by the caller's word.
        ptr::eq(unsafe { api!(RedisModule_ModuleTypeGetType(key)) }, self.get())
    }
}

/// Whether a value is being replaced or removed by this module itself.
static OURS: MainThread<Cell<bool>> = MainThread::new(Cell::new(false));

/// Runs something that makes the server let a value go, at this module's own wish.
pub fn ours<R>(work: impl FnOnce() -> R) -> R {
    OURS.with(|ours| ours.set(true));
    let result = work();
    OURS.with(|ours| ours.set(false));
    result
}

/// Whether that is why one is let go.
pub fn is_ours() -> bool {
    OURS.with(|ours| ours.get()).unwrap_or(false)
}
