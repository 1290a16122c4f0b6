//! Values that belong to one process: after a fork they stay the parent's, though the memory is copied.

use std::mem;
use std::process;

/// A value of the process that made it. A child of that process cannot get it, and does not drop it.
pub(crate) struct Own<T> {
    value: Option<T>,
    process: u32,
}

impl<T> Own<T> {
    pub(crate) fn new(value: T) -> Own<T> {
        Own::of(value, process::id())
    }

    /// A value of the process with this id. Saves the system call of `new`.
    pub(crate) fn of(value: T, process: u32) -> Own<T> {
        Own { value: Some(value), process }
    }

    /// True if the value belongs to the parent of this process.
    pub(crate) fn is_inherited(&self) -> bool {
        self.process != process::id()
    }

    pub(crate) fn get(&self) -> Option<&T> {
        if self.is_inherited() { None } else { self.value.as_ref() }
    }

    pub(crate) fn take(&mut self) -> Option<T> {
        if self.is_inherited() { None } else { self.value.take() }
    }
}

impl<T> Drop for Own<T> {
    fn drop(&mut self) {
        if self.is_inherited() {
            mem::forget(self.value.take());
        }
    }
}
