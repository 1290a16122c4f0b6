//! A data set that a replica loads beside the one that it has (`repl-diskless-load swapdb`).
//!
//! Until the load is complete, the old data set counts, and is read. The locks of
//! the new one are kept apart, and replace the old ones when the server swaps the data
//! sets. If the server gives the load up, nothing has changed.
//!
//! The server tells that such a load begins, then that a load begins, as for any load; in the end
//! that the data sets are swapped, or that the load is given up; and that a load has ended. When it
//! is given up, the last two come in either order.

use crate::ffi::index::Index;

/// The state of a load.
#[derive(Default)]
pub struct DataSetLoad {
    /// True while the server loads a data set.
    is_loading: bool,
    /// The deadlines of the new locks, while they are read.
    index: Option<Index>,
    /// True if the present load has left the old data set alone so far.
    keeps_old: bool,
}

impl DataSetLoad {
    /// True while the server loads a data set.
    pub fn is_loading(&self) -> bool {
        self.is_loading
    }

    /// Notes that the server begins or ends a load.
    pub fn note(&mut self, is_loading: bool) {
        self.is_loading = is_loading;
    }

    /// Begins a load beside the present data set.
    pub fn begin_beside(&mut self) {
        self.abort();
        (self.index, self.keeps_old) = (Some(Index::default()), true);
    }

    /// The index for locks that are read now, if it is not the live one.
    pub fn index(&mut self) -> Option<&mut Index> {
        self.index.as_mut()
    }

    /// True if locks that are read now go beside the live data set.
    pub fn is_beside(&self) -> bool {
        self.index.is_some()
    }

    /// True if the present load leaves the old data set alone.
    pub fn keeps_old(&self) -> bool {
        self.keeps_old
    }

    /// Replaces the old data set by the new one.
    pub fn swap(&mut self, live: &mut Index) {
        self.keeps_old = false;
        if let Some(new) = self.index.take() {
            std::mem::replace(live, new).clear();
        }
    }

    /// Gives the load up: the server frees what it has read.
    pub fn abort(&mut self) {
        if let Some(mut index) = self.index.take() {
            index.clear();
        }
    }

    /// Ends the load. True if the old data set is still there.
    pub fn end(&mut self) -> bool {
        std::mem::take(&mut self.keeps_old)
    }
}
