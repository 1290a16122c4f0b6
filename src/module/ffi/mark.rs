//! The value of a mark: its fence is the pointer that the server keeps. No memory behind it has to be allocated or
//! freed.

use std::ffi::c_void;
use std::ptr;

use dlock_core::Fence;
use dlock_core::durability::mark;

/// A fence is 53 bits long.
const _: () = assert!(size_of::<*mut c_void>() == 8);

/// The pointer that the server keeps for a mark with this fence.
pub fn pointer(fence: Fence) -> *mut c_void {
    ptr::without_provenance_mut(fence.0 as usize)
}

/// The fence in the pointer that the server keeps.
pub fn fence_of(value: *mut c_void) -> Option<Fence> {
    mark::stored(value.addr() as u64)
}
