//! The value at a key whose lock is done.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::{Mutex, PoisonError};

use dlock_core::{Done, Owner};

use super::block::PER_KEY;

/// A mark as the server keeps it: behind a pointer.
pub struct Stored {
    /// The user who made it; nobody for one that was loaded or that another node made.
    owner: Option<Owner>,
    /// The length of its key's name.
    name: u32,
    /// The mark's own form.
    bytes: Box<[u8]>,
}

/// The values that exist. The server may free one on another thread.
static COUNTS: Mutex<Counts> = Mutex::new(Counts { bytes: 0, by_owner: BTreeMap::new() });

struct Counts {
    bytes: usize,
    by_owner: BTreeMap<Owner, u64>,
}

impl Stored {
    /// Makes a value for the server at a key with this name, which [`free`] ends.
    pub fn make(name: &[u8], owner: Option<Owner>, bytes: Box<[u8]>) -> *mut c_void {
        let name = u32::try_from(name.len()).unwrap_or(u32::MAX);
        let stored = Stored { owner, name, bytes };
        counts(|counts| {
            counts.bytes += stored.weight();
            if let Some(owner) = owner {
                *counts.by_owner.entry(owner).or_default() += 1;
            }
        });
        Box::into_raw(Box::new(stored)).cast()
    }

    /// The value behind the server's pointer.
    ///
    /// # Safety
    /// The pointer is from [`Stored::make`], and the value is not freed during `'v`.
    pub unsafe fn at<'v>(value: *const c_void) -> Option<&'v Stored> {
        // SAFETY: by the caller's word.
        unsafe { value.cast::<Stored>().as_ref() }
    }

    /// The mark's own form.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The mark.
    pub fn done(&self) -> Option<Done<'_>> {
        Done::decode(&self.bytes)
    }

    /// An estimate of the bytes that it takes.
    pub fn size(&self) -> usize {
        size_of::<Stored>() + self.bytes.len()
    }

    /// An estimate of the bytes that it takes with its key.
    fn weight(&self) -> usize {
        PER_KEY + self.name as usize + self.size()
    }
}

/// Ends a value.
///
/// # Safety
/// The pointer is from [`Stored::make`], and nobody uses it any more.
pub unsafe fn free(value: *mut c_void) {
    // SAFETY: by the caller's word.
    let stored = unsafe { Box::from_raw(value.cast::<Stored>()) };
    counts(|counts| {
        counts.bytes = counts.bytes.saturating_sub(stored.weight());
        if let Some(owner) = stored.owner
            && let Some(count) = counts.by_owner.get_mut(&owner)
        {
            *count -= 1;
            if *count == 0 {
                counts.by_owner.remove(&owner);
            }
        }
    });
}

/// The bytes of all values and their keys.
pub fn bytes() -> usize {
    counts(|counts| counts.bytes)
}

/// The number of values that a user has made.
pub fn made_by(owner: Owner) -> u64 {
    counts(|counts| counts.by_owner.get(&owner).copied().unwrap_or(0))
}

fn counts<R>(work: impl FnOnce(&mut Counts) -> R) -> R {
    work(&mut COUNTS.lock().unwrap_or_else(PoisonError::into_inner))
}
