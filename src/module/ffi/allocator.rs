//! The module's memory: the server allocates it.

use std::alloc::{GlobalAlloc, Layout};

use redis_module::alloc::RedisAlloc;

/// The server counts what the module allocates, and `maxmemory` includes it.
pub struct ServerAllocator;

/// The alignment that each server guarantees. A server that keeps the size of a block in front of it, as with
/// the allocator of musl, aligns no better.
const ALIGNED: usize = align_of::<usize>();

// SAFETY: the server's own allocator does the work. If a block needs more alignment than the server guarantees,
// `align` bytes are added. At least a word of them is in front, and stores the address of the server's block.
unsafe impl GlobalAlloc for ServerAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= ALIGNED {
            // SAFETY: by the contract of `GlobalAlloc`.
            return unsafe { RedisAlloc.alloc(layout) };
        }
        let Some(size) = layout.size().checked_add(layout.align()) else {
            return std::ptr::null_mut();
        };
        // SAFETY: the size is not 0, and the alignment is a power of two. `aligned` is a multiple of the alignment,
        // and lies a word to `align` bytes behind the start, which is a multiple of a word.
        unsafe {
            let start = RedisAlloc.alloc(Layout::from_size_align_unchecked(size, ALIGNED));
            let aligned =
                start.map_addr(|address| (address + layout.align()) & !(layout.align() - 1));
            aligned.cast::<*mut u8>().sub(1).write(start);
            aligned
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: by the contract of `GlobalAlloc`: `alloc` made the block for this layout, and has written the
        // word.
        unsafe {
            let start = if layout.align() <= ALIGNED {
                block
            } else {
                block.cast::<*mut u8>().sub(1).read()
            };
            RedisAlloc.dealloc(start, layout);
        }
    }
}
