//! A data set that a replica loads beside the one that it has (`repl-diskless-load swapdb`).
//!
//! Until the load is complete, the old data set is the one that counts, and is read. The locks of
//! the new one are kept apart, and take the place of the old ones when the server swaps the data
//! sets. If the load is given up, nothing has happened.
//!
//! The server tells that such a load begins, then that a load begins, as it does of any; in the end
//! that the data sets are swapped, or that the load is given up; and that a load has ended. When it
//! is given up, the last two come in either order.

use crate::ffi::index::Index;

/// What is being loaded.
#[derive(Default)]
pub struct DataSetLoad {
    /// Whether anything is.
    is_loading: bool,
    /// The deadlines of the new locks, while they are read.
    index: Option<Index>,
    /// Whether the load that is under way has left the old data set alone so far.
    keeps_old: bool,
}

impl DataSetLoad {
    /// Whether a data set is being loaded.
    pub fn is_loading(&self) -> bool {
        self.is_loading
    }

    /// The server says that it loads one, or does not any more.
    pub fn note(&mut self, is_loading: bool) {
        self.is_loading = is_loading;
    }

    /// A load beside what there is begins.
    pub fn begin_beside(&mut self) {
        self.abort();
        (self.index, self.keeps_old) = (Some(Index::default()), true);
    }

    /// Where a lock belongs that is read now, if not to the live ones.
    pub fn index(&mut self) -> Option<&mut Index> {
        self.index.as_mut()
    }

    /// Whether what is read now goes beside the live data set.
    pub fn is_beside(&self) -> bool {
        self.index.is_some()
    }

    /// Whether the load that is under way leaves the old data set alone.
    pub fn keeps_old(&self) -> bool {
        self.keeps_old
    }

    /// The new data set has taken the place of the old one.
    pub fn swap(&mut self, live: &mut Index) {
        self.keeps_old = false;
        if let Some(new) = self.index.take() {
            std::mem::replace(live, new).clear();
        }
    }

    /// It is given up: the server lets go of what it has read.
    pub fn abort(&mut self) {
        if let Some(mut index) = self.index.take() {
            index.clear();
        }
    }

    /// The load has ended. Whether the old data set is still there.
    pub fn end(&mut self) -> bool {
        std::mem::take(&mut self.keeps_old)
    }
}
