//! The value at the key of a done lock.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::{Mutex, PoisonError};

use dlock_core::lock::done::{NO_MAKER, maker, units};
use dlock_core::{Done, Owner};

use super::block::PER_KEY;

/// A completion record as the server keeps it, behind a pointer.
pub struct Stored {
    /// The record in its own form.
    record: Box<[u8]>,
    /// The length of its key's name.
    name: usize,
}

/// The values that exist. The server may free one on another thread.
static COUNTS: Mutex<Counts> = Mutex::new(Counts { keys: 0, bytes: 0, by_maker: BTreeMap::new() });

struct Counts {
    keys: u64,
    bytes: usize,
    /// The units of each user's values.
    by_maker: BTreeMap<u32, u64>,
}

impl Stored {
    /// Makes a value for the server at a key with this name, which [`free`] ends.
    pub fn make(name: &[u8], done: &Done<'_>) -> *mut c_void {
        let stored = Stored { record: done.encode().into(), name: name.len() };
        counts(|counts| {
            counts.keys += 1;
            counts.bytes += PER_KEY + stored.name + stored.size();
            if done.maker != NO_MAKER {
                *counts.by_maker.entry(done.maker).or_default() += stored.units(done);
            }
        });
        Box::into_raw(Box::new(stored)).cast()
    }

    /// The value behind the server's pointer.
    ///
    /// # Safety
    /// The pointer is from [`Stored::make`], and the value is not freed during `'v`.
    pub unsafe fn at<'v>(value: *const c_void) -> Option<&'v Stored> {
        // SAFETY: by the function's contract.
        unsafe { value.cast::<Stored>().as_ref() }
    }

    /// The record's own form.
    pub fn bytes(&self) -> &[u8] {
        &self.record
    }

    /// The record.
    pub fn done(&self) -> Option<Done<'_>> {
        Done::decode(&self.record)
    }

    /// The bytes that it takes.
    pub fn size(&self) -> usize {
        size_of::<Stored>() + self.record.len()
    }

    /// The number of units that this value counts for.
    fn units(&self, done: &Done<'_>) -> u64 {
        units(self.name, done.meta.len())
    }
}

/// Ends a value.
///
/// # Safety
/// The pointer is from [`Stored::make`], and not used again.
pub unsafe fn free(value: *mut c_void) {
    // SAFETY: by the function's contract.
    let stored = unsafe { Box::from_raw(value.cast::<Stored>()) };
    let (maker, units) =
        stored.done().map_or((NO_MAKER, 0), |done| (done.maker, stored.units(&done)));
    counts(|counts| {
        counts.keys = counts.keys.saturating_sub(1);
        counts.bytes = counts.bytes.saturating_sub(PER_KEY + stored.name + stored.size());
        if let Some(count) = counts.by_maker.get_mut(&maker) {
            *count = count.saturating_sub(units);
            if *count == 0 {
                counts.by_maker.remove(&maker);
            }
        }
    });
}

/// The number of all values.
pub fn number() -> u64 {
    counts(|counts| counts.keys)
}

/// The bytes of all values and their keys.
pub fn bytes() -> usize {
    counts(|counts| counts.bytes)
}

/// The units of a user's values.
pub fn made_by(owner: Owner) -> u64 {
    counts(|counts| counts.by_maker.get(&maker(owner)).copied().unwrap_or(0))
}

fn counts<R>(work: impl FnOnce(&mut Counts) -> R) -> R {
    work(&mut COUNTS.lock().unwrap_or_else(PoisonError::into_inner))
}
