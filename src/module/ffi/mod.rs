//! Calls into the server: its module interface, behind types that the rest of the crate can use safely. No code
//! here depends on its callers: callbacks come as arguments.
//!
//! - [`allocator`]: the module's memory.
//! - [`context`]: a call's context: replies, replication, events and strings.
//! - [`call`]: a command's arguments.
//! - [`server`]: the server's version, configuration and state.
//! - [`kind`]: the types of the module's values.
//! - [`key`]: an open key, and its value.
//! - [`block`]: a lock in memory, and its owners.
//! - [`index`]: the ends of leases.
//! - [`done`]: the value at the key of a done lock.
//! - [`mark`]: the value at the key of a mark.
//! - [`inner`]: the command inside another.
//! - [`waiter`]: blocked clients.
//! - [`alarm`]: the one timer.
//! - [`info`]: the lines of INFO.
//! - [`scan`]: a search of the whole keyspace.

pub mod alarm;
pub mod allocator;
pub mod block;
pub mod call;
pub mod context;
pub mod done;
pub mod index;
pub mod info;
pub mod inner;
pub mod key;
pub mod kind;
pub mod mark;
pub mod scan;
pub mod server;
pub mod waiter;

use std::cell::RefCell;
use std::sync::OnceLock;
use std::thread::{self, ThreadId};

/// A value that lives as long as the server and is used on its main thread only.
pub struct MainThread<T>(RefCell<T>);

// SAFETY: the server calls every callback of this module on its main thread, under its global lock. The two
// exceptions touch no `MainThread`: `free` (block.rs), and FENCED when it is asked for keys (inner.rs). Neither
// does the module's own thread (durability/writer.rs).
unsafe impl<T> Sync for MainThread<T> {}
// SAFETY: as above: it is made, used and dropped on one thread.
unsafe impl<T> Send for MainThread<T> {}

impl<T> MainThread<T> {
    /// Wraps a value.
    pub const fn new(value: T) -> MainThread<T> {
        MainThread(RefCell::new(value))
    }

    /// Runs `work` with the value; `None` if it is in use already, further up the stack: the server can call
    /// back during a call into it.
    pub fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> Option<R> {
        debug_assert!(is_main_thread(), "what is the main thread's is not another's");
        self.0.try_borrow_mut().ok().map(|mut value| work(&mut value))
    }
}

/// True on the first thread that came here: the one that loads the module.
fn is_main_thread() -> bool {
    static MAIN: OnceLock<ThreadId> = OnceLock::new();
    let this = thread::current().id();
    *MAIN.get_or_init(|| this) == this
}
