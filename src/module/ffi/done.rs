//! The value at the key of a done lock.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::slice;
use std::sync::{Mutex, PoisonError};

use dlock_core::lock::done::{NO_MAKER, maker, units};
use dlock_core::{Done, Owner};

use super::block::PER_KEY;

/// A completion record as the server keeps it: behind a pointer, in one piece.
#[derive(Clone, Copy)]
pub struct Stored<'v>(NonNull<Head>, PhantomData<&'v Head>);

/// The beginning of a value. The record in its own form follows.
#[derive(Clone, Copy)]
#[repr(C, packed)]
struct Head {
    /// The length of the record's own form.
    len: u16,
    /// The length of its key's name is at most two to the power of this.
    name: u8,
}

/// The values that exist. The server may free one on another thread.
static COUNTS: Mutex<Counts> = Mutex::new(Counts { keys: 0, bytes: 0, by_maker: BTreeMap::new() });

struct Counts {
    keys: u64,
    bytes: usize,
    /// The units of each user's values.
    by_maker: BTreeMap<u32, u64>,
}

impl<'v> Stored<'v> {
    /// Makes a value for the server at a key with this name, which [`free`] ends.
    pub fn make(name: &[u8], done: &Done<'_>) -> *mut c_void {
        let bytes = &*done.encode();
        let name = name.len().next_power_of_two().trailing_zeros() as u8;
        // A record is far shorter.
        let len = u16::try_from(bytes.len()).unwrap_or(u16::MAX);
        let head = Head { len, name };
        let bytes = bytes.get(..usize::from(len)).unwrap_or(bytes);
        // SAFETY: the layout has room for the head and the bytes, and is not empty.
        let start = unsafe {
            let start = alloc(head.layout()).cast::<Head>();
            if start.is_null() {
                handle_alloc_error(head.layout());
            }
            start.write(head);
            start.add(1).cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
            start
        };
        counts(|counts| {
            counts.keys += 1;
            counts.bytes += head.weight();
            if done.maker != NO_MAKER {
                *counts.by_maker.entry(done.maker).or_default() += head.units(done);
            }
        });
        start.cast()
    }

    /// The value behind the server's pointer.
    ///
    /// # Safety
    /// The pointer is from [`Stored::make`], and the value is not freed during `'v`.
    pub unsafe fn at(value: *const c_void) -> Option<Stored<'v>> {
        let start = NonNull::new(value.cast::<Head>().cast_mut())?;
        Some(Stored(start, PhantomData))
    }

    /// The record's own form.
    pub fn bytes(self) -> &'v [u8] {
        // SAFETY: `make` has written this many bytes behind the head, and they live for `'v`.
        unsafe {
            slice::from_raw_parts(self.0.add(1).cast().as_ptr(), usize::from(self.head().len))
        }
    }

    /// The record.
    pub fn done(self) -> Option<Done<'v>> {
        Done::decode(self.bytes())
    }

    /// The bytes that it takes.
    pub fn size(self) -> usize {
        self.head().layout().size()
    }

    fn head(self) -> Head {
        // SAFETY: `make` has written it, and it lives for `'v`.
        unsafe { self.0.read() }
    }
}

impl Head {
    fn layout(self) -> Layout {
        let size = size_of::<Head>() + usize::from(self.len);
        // SAFETY: the alignment is a power of two, and the sum of a few bytes and a number of 16 bits is no overflow.
        unsafe { Layout::from_size_align_unchecked(size, align_of::<Head>()) }
    }

    /// The number of units that this value counts for.
    fn units(self, done: &Done<'_>) -> u64 {
        units(1 << self.name, done.meta.len())
    }

    /// An estimate of the bytes that the value takes with its key.
    fn weight(self) -> usize {
        PER_KEY + (1 << self.name) + self.layout().size()
    }
}

/// Ends a value.
///
/// # Safety
/// The pointer is from [`Stored::make`], and not used again.
pub unsafe fn free(value: *mut c_void) {
    // SAFETY: by the function's contract.
    let Some(stored) = (unsafe { Stored::at(value) }) else { return };
    let head = stored.head();
    let (maker, units) =
        stored.done().map_or((NO_MAKER, 0), |done| (done.maker, head.units(&done)));
    // SAFETY: `make` has allocated it with this layout.
    unsafe { dealloc(value.cast(), head.layout()) };
    counts(|counts| {
        counts.keys = counts.keys.saturating_sub(1);
        counts.bytes = counts.bytes.saturating_sub(head.weight());
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
