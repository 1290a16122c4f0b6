//! What calls the server: its module interface, behind types that the rest of the crate can use
//! safely. Nothing here knows who uses it: callbacks are handed down as arguments.
//!
//! - [`context`]: what can be said and done in a call from the server.
//! - [`call`]: a command's arguments.
//! - [`server`]: what the server says of itself.
//! - [`kind`]: the types of the module's values.
//! - [`key`]: an open key, and what lies there.
//! - [`block`]: how a lock lies in memory, and who frees it.
//! - [`index`]: the deadlines of the blocks.
//! - [`mark`]: an open mark.
//! - [`inner`]: the command inside another.
//! - [`waiter`]: blocked clients.
//! - [`alarm`]: the one timer.
//! - [`info`]: the lines of INFO.
//! - [`scan`]: a search of the whole keyspace.

pub mod alarm;
pub mod block;
pub mod call;
pub mod context;
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

/// Something that lives as long as the server and is only touched on its main thread.
pub struct MainThread<T>(RefCell<T>);

// SAFETY: the server calls every callback of this module on its main thread, under its global lock,
// but for two that touch no `MainThread`: `free` (block.rs), and GUARD and FENCED when they are asked
// for keys (inner.rs). The module's own thread (durability/writer.rs) knows none, either.
unsafe impl<T> Sync for MainThread<T> {}
// SAFETY: as above: it is made, used and dropped on one thread.
unsafe impl<T> Send for MainThread<T> {}

impl<T> MainThread<T> {
    /// Wraps it.
    pub const fn new(value: T) -> MainThread<T> {
        MainThread(RefCell::new(value))
    }

    /// Runs `work` with it; `None` if that is under way already, further up the stack: the
    /// server can call back in the middle of a call into it.
    pub fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> Option<R> {
        debug_assert!(is_main_thread(), "what is the main thread's is not another's");
        self.0.try_borrow_mut().ok().map(|mut value| work(&mut value))
    }
}

/// Whether this is the thread that was here first: the one that loads the module.
fn is_main_thread() -> bool {
    static MAIN: OnceLock<ThreadId> = OnceLock::new();
    let this = thread::current().id();
    *MAIN.get_or_init(|| this) == this
}
