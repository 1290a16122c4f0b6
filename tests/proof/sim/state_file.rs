//! A server's state file.

use dlock_core::{Millis, Promise};

/// The state file.
#[derive(Debug, Default)]
pub struct StateFile {
    /// Its content.
    pub says: Option<Promise>,
    /// The promise that is being written into it.
    pub writing: Option<Promise>,
    /// True if the replica has not got the last promise yet.
    pub is_news: bool,
    /// A flaw: the bound is not written.
    pub forgets_bound: bool,
}

impl StateFile {
    /// Writes a promise.
    pub fn write(&mut self, promise: Promise) {
        let before = self.says.take().map_or(Millis(0), |says| says.bound);
        let all = promise.bound;
        let bound = if self.forgets_bound { before.min(all) } else { all };
        self.says = Some(Promise { bound, ..promise });
        self.is_news = true;
    }
}
