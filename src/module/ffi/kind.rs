//! The types of values that the module adds to the server: locks, completion records, and marks.

use std::ffi::{CStr, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use redis_module::raw;

use super::context::{Ctx, api};

/// A type of values. The server identifies it by a pointer.
pub struct ValueKind(AtomicPtr<raw::RedisModuleType>);

/// The type `dlock-key`: locks.
pub static LOCK: ValueKind = ValueKind::unregistered();
/// The type `dlockdone`: completion records.
pub static DONE: ValueKind = ValueKind::unregistered();
/// The type `dlockmark`: marks.
pub static MARK: ValueKind = ValueKind::unregistered();

/// The callbacks of a type; NULL: absent.
pub type Methods = raw::RedisModuleTypeMethods;

/// No callbacks, in the layout of Redis 7.0, which does not read later fields; none is needed here.
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

    /// Registers the type. `version`: the version of its payloads. False: the server refuses it.
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

    /// The server's pointer for the type.
    pub fn get(&self) -> *mut raw::RedisModuleType {
        self.0.load(Ordering::Relaxed)
    }

    /// The value of a key, if it is of this type.
    ///
    /// # Safety
    /// The key must be open, or NULL.
    pub unsafe fn value_at(&self, key: *mut raw::RedisModuleKey) -> Option<*mut c_void> {
        // SAFETY: by the function's contract.
        unsafe {
            let is_ours =
                !key.is_null() && ptr::eq(api!(RedisModule_ModuleTypeGetType(key)), self.get());
            is_ours.then(|| api!(RedisModule_ModuleTypeGetValue(key)))
        }
    }
}

/// The value that this module itself is about to replace or to remove; NULL: none.
static OURS: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// Runs `work`, which makes the server free `value` for this module. Other modules with key events may act
/// meanwhile: their actions do not count as this module's.
pub fn ours<R>(value: *mut c_void, work: impl FnOnce() -> R) -> R {
    let outer = OURS.swap(value, Ordering::Relaxed);
    let result = work();
    OURS.store(outer, Ordering::Relaxed);
    result
}

/// True if this module itself makes the server free the value.
pub fn is_ours(value: *const c_void) -> bool {
    ptr::eq(OURS.load(Ordering::Relaxed), value)
}
