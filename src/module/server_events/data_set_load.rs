//! A data set that a replica loads beside its present one (`repl-diskless-load swapdb`).
//!
//! Until the load is complete, the old data set counts, and is read. The locks of the new one are kept apart,
//! and replace the old ones when the server swaps the data sets. If the server aborts the load, nothing has
//! changed.
//!
//! The server reports that such a load begins, and then that a load begins, as for any load. In the end it
//! reports that the data sets are swapped or the load is aborted, and that a load has ended. If it is aborted,
//! these two come in either order.

use crate::ffi::index::Index;

/// The state of a load.
#[derive(Default)]
pub struct DataSetLoad {
    /// True while the server loads a data set.
    is_loading: bool,
    /// The deadlines of the new locks, while they are read.
    index: Option<Index>,
    /// True if the present load has not touched the old data set so far.
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

    /// The index for the locks being read, if it is not the live one.
    pub fn index(&mut self) -> Option<&mut Index> {
        self.index.as_mut()
    }

    /// True if the locks being read go beside the live data set.
    pub fn is_beside(&self) -> bool {
        self.index.is_some()
    }

    /// True if the present load does not touch the old data set.
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

    /// Aborts the load: the server frees what it has read.
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
