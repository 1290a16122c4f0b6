//! A lock in memory, and its owners.
//!
//! The server's keyspace keeps one pointer for a key. It points to a block: an exclusive lock in one piece
//! without waste (see `dlock_core::stored::packed`), or a crowd. A block has up to three owners: the keyspace,
//! the deadline index, and the module, which keeps taken locks for a moment. Each releases its share
//! separately, and the last one frees the block. So the index never points to freed memory, in whatever way a
//! server frees a value.
//!
//! `free` may run in a background thread: it touches only the flags, which are atomic, and a block without
//! other owners. It may run late; so a block is in the keyspace only once, and a lock that returns to a key
//! gets a new block.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::slice;
use std::sync::atomic::{AtomicU8, Ordering};

use dlock_core::stored::deadlines::Entry;
use dlock_core::stored::packed;
use dlock_core::{ClientId, Crowd, Deadline, Fence, Grant, Key, KeyBuf};

use super::MainThread;

/// A block. It may only be used while an owner holds it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Block(NonNull<u8>);

/// The content of a block.
pub enum Inside<'a> {
    /// An exclusive lock.
    One(Key<'a>, Grant<'a>),
    /// A shared lock or a semaphore.
    Many(&'a mut Gathering),
    /// A lock that ended with a RENAME, MOVE or SWAPDB.
    Dead,
}

/// An EPHEMERAL grant that the node has noted.
pub struct Noted {
    pub token: Box<[u8]>,
    pub client: ClientId,
}

/// A crowd and its entries in the index.
pub struct Gathering {
    /// The key.
    pub key: KeyBuf,
    /// The deadline of its entry in the index.
    pub indexed: Option<Deadline>,
    /// The end of its last lease, as the index has it.
    pub indexed_last: Option<Deadline>,
    /// The number of leases last counted.
    pub counted: usize,
    /// The bytes last counted.
    pub weighed: usize,
    /// The holders.
    pub crowd: Crowd,
}

impl Gathering {
    /// An estimate of the bytes that the lock takes with its key and in the index.
    pub fn weight(&self) -> usize {
        PER_KEY + size_of::<Many>() + 2 * self.key.name.len() + self.crowd.size()
    }
}

/// The server's overhead for a key beside its name and value, and the index's for a lock.
pub const PER_KEY: usize = 100;

/// The first two bytes of every block. The tag is the length of a short record, or one of the two other kinds.
#[repr(C)]
struct Head {
    tag: u8,
    flags: AtomicU8,
}

#[repr(C)]
struct Long {
    head: Head,
    record: Box<[u8]>,
}

#[repr(C)]
struct Many {
    head: Head,
    gathering: Gathering,
}

const MANY: u8 = 0;
/// A record has at least 16 bytes, so the tag 1 is free for one that lies elsewhere.
const LONG: u8 = 1;
const HEAD: usize = size_of::<Head>();

// The lower four flags are the record's.
const IN_KEYSPACE: u8 = 0x10;
const IN_INDEX: u8 = 0x20;
const DEAD: u8 = 0x40;
const KEPT: u8 = 0x80;

/// The shares of the module beside its first one, of the few blocks that have any.
static FURTHER: MainThread<BTreeMap<Block, usize>> = MainThread::new(BTreeMap::new());

impl Block {
    /// A block for the keyspace, with an exclusive lock.
    pub fn one(key: Key<'_>, grant: &Grant<'_>, scratch: &mut Vec<u8>) -> Block {
        scratch.clear();
        let flags = packed::pack(key, grant, scratch) | IN_KEYSPACE;
        let head = |tag| Head { tag, flags: AtomicU8::new(flags) };
        match u8::try_from(scratch.len()) {
            Ok(tag) if tag > LONG => Block::short(head(tag), scratch),
            _ => Block::boxed(Long { head: head(LONG), record: scratch.as_slice().into() }),
        }
    }

    /// A block for the keyspace, with a crowd.
    pub fn many(key: Key<'_>, crowd: Crowd) -> Block {
        let (key, indexed, indexed_last) = (key.to_owned(), None, None);
        let gathering = Gathering { key, indexed, indexed_last, counted: 0, weighed: 0, crowd };
        Block::boxed(Many {
            head: Head { tag: MANY, flags: AtomicU8::new(IN_KEYSPACE) },
            gathering,
        })
    }

    /// The content of the block.
    ///
    /// # Safety
    /// One of the block's owners must hold it for all of `'a`, and no other `Inside` of a crowd
    /// may be in use.
    pub unsafe fn inside<'a>(self) -> Inside<'a> {
        let head = self.head();
        let flags = head.flags.load(Ordering::Relaxed);
        if flags & DEAD != 0 {
            return Inside::Dead;
        }
        // SAFETY: by the function's contract.
        if let Some(gathering) = unsafe { self.gathering() } {
            return Inside::Many(gathering);
        }
        // SAFETY: the tag says that it has a record; by the function's contract it is held.
        match packed::unpack(flags, unsafe { self.record() }) {
            Some((key, grant)) => Inside::One(key, grant),
            None => {
                debug_assert!(false, "a record is what `pack` wrote");
                Inside::Dead
            }
        }
    }

    /// The end of the first lease in the block.
    ///
    /// # Safety
    /// As for [`Block::inside`].
    pub unsafe fn first_end(self) -> Option<Deadline> {
        let head = self.head();
        if head.flags.load(Ordering::Relaxed) & DEAD != 0 {
            return None;
        }
        // SAFETY: as in `inside`.
        unsafe {
            match head.tag {
                MANY => self.0.cast::<Many>().as_ref().gathering.crowd.first_end(),
                _ => packed::end(self.record()),
            }
        }
    }

    /// The crowd in the block, if it is one and not dead.
    ///
    /// # Safety
    /// As for [`Block::inside`].
    pub unsafe fn gathering<'a>(self) -> Option<&'a mut Gathering> {
        let head = self.head();
        if head.tag != MANY || head.flags.load(Ordering::Relaxed) & DEAD != 0 {
            return None;
        }
        // SAFETY: the tag says that `many` made it; exclusive by the function's contract. The head is not part
        // of the reference: another thread may be releasing its share.
        Some(unsafe { &mut (*self.0.cast::<Many>().as_ptr()).gathering })
    }

    /// The effort to free the block. A dead crowd takes as much.
    ///
    /// # Safety
    /// As for [`Block::inside`].
    pub unsafe fn effort(self) -> usize {
        match self.head().tag {
            // SAFETY: the tag says that `many` made it.
            MANY => unsafe { (*self.0.cast::<Many>().as_ptr()).gathering.crowd.len() },
            _ => 1,
        }
    }

    /// The EPHEMERAL grants in the block.
    ///
    /// # Safety
    /// As for [`Block::inside`].
    pub unsafe fn noted(self) -> Vec<Noted> {
        let is_noted = |grant: &Grant<'_>| grant.ephemeral;
        let own = |grant: Grant<'_>| Noted { token: grant.token.into(), client: grant.client };
        // SAFETY: by the function's contract.
        match unsafe { self.inside() } {
            Inside::One(_, grant) if is_noted(&grant) => vec![own(grant)],
            Inside::Many(many) => many.crowd.grants().filter(is_noted).map(own).collect(),
            _ => Vec::new(),
        }
    }

    /// The end of the last lease in the block, dead or not.
    pub fn last_end(self) -> Option<Deadline> {
        // SAFETY: an owner holds the block; the tag says how it was made.
        unsafe {
            match self.head().tag {
                MANY => (*self.0.cast::<Many>().as_ptr()).gathering.crowd.last_end(),
                _ => packed::end(self.record()),
            }
        }
    }

    /// The largest fence in the block, dead or not.
    pub fn top(self) -> Fence {
        let head = self.head();
        // SAFETY: an owner holds the block; the tag says how it was made.
        unsafe {
            match head.tag {
                MANY => (*self.0.cast::<Many>().as_ptr()).gathering.crowd.top(),
                _ => packed::unpack(head.flags.load(Ordering::Relaxed), self.record())
                    .map_or(Fence(0), |(_, grant)| grant.fence),
            }
        }
    }

    /// Marks a lock as dead: another command that ends leases has moved its key.
    pub fn kill(self) {
        self.head().flags.fetch_or(DEAD, Ordering::Relaxed);
    }

    /// True if it was marked as dead.
    pub fn is_dead(self) -> bool {
        self.head().flags.load(Ordering::Relaxed) & DEAD != 0
    }

    /// True if the keyspace still has the block.
    pub fn is_in_keyspace(self) -> bool {
        self.head().flags.load(Ordering::Acquire) & IN_KEYSPACE != 0
    }

    /// True if the index has the block.
    pub fn is_in_index(self) -> bool {
        self.head().flags.load(Ordering::Relaxed) & IN_INDEX != 0
    }

    /// Gives the index a share.
    pub fn enter_index(self) {
        self.head().flags.fetch_or(IN_INDEX, Ordering::Relaxed);
    }

    /// Takes the index's share back.
    pub fn leave_index(self) {
        self.let_go(IN_INDEX);
    }

    /// Gives a part of the module a share, for a moment. Each part has its own.
    pub fn keep(self) {
        if self.head().flags.fetch_or(KEPT, Ordering::Relaxed) & KEPT != 0 {
            FURTHER.with(|further| *further.entry(self).or_default() += 1);
        }
    }

    /// Takes that part's share back.
    pub fn release(self) {
        let others = FURTHER.with(|further| {
            let shares = further.remove(&self)?;
            if shares > 1 {
                further.insert(self, shares - 1);
            }
            Some(())
        });
        if others.flatten().is_none() {
            self.let_go(KEPT);
        }
    }

    /// Takes the keyspace's share back. May be called on any thread.
    pub fn leave_keyspace(self) {
        self.let_go(IN_KEYSPACE);
    }

    /// The pointer that the keyspace stores.
    pub fn as_ptr(self) -> *mut std::ffi::c_void {
        self.0.as_ptr().cast()
    }

    /// A block from the pointer that the keyspace stores.
    ///
    /// # Safety
    /// The pointer must be from [`Block::as_ptr`], and an owner must still hold the block.
    pub unsafe fn from_ptr(ptr: *mut std::ffi::c_void) -> Option<Block> {
        NonNull::new(ptr.cast()).map(Block)
    }

    /// The block's name in the index.
    pub fn entry(self) -> Entry {
        Entry(self.0.as_ptr().expose_provenance() as u64)
    }

    /// A block from its name in the index.
    ///
    /// # Safety
    /// The entry must be from [`Block::entry`], and the index must still hold the block.
    pub unsafe fn from_entry(entry: Entry) -> Option<Block> {
        let address = usize::try_from(entry.0).ok()?;
        NonNull::new(std::ptr::with_exposed_provenance_mut(address)).map(Block)
    }

    /// The bytes of heap of the block, for MEMORY USAGE.
    ///
    /// # Safety
    /// As for [`Block::inside`].
    pub unsafe fn size(self) -> usize {
        match self.head().tag {
            // SAFETY: by the function's contract.
            MANY => match unsafe { self.inside() } {
                Inside::Many(gathering) => {
                    size_of::<Many>() + gathering.key.name.len() + gathering.crowd.size()
                }
                _ => size_of::<Many>(),
            },
            // SAFETY: the tag says so; records never change.
            LONG => size_of::<Long>() + unsafe { self.0.cast::<Long>().as_ref() }.record.len(),
            // The exact size is not read, because each lock that comes or goes asks for it.
            len => HEAD + usize::from(len),
        }
    }

    /// An estimate of the bytes that an exclusive lock takes with its key and in the index: the name is in the
    /// record, and the server keeps a copy. The name counts as half of a short record. The estimate is constant for
    /// the block's lifetime. An owner must hold the block.
    pub fn weight(self) -> usize {
        let name = match self.head().tag {
            // SAFETY: the tag says so; an owner holds the block, and records never change.
            LONG | MANY => match unsafe { self.inside() } {
                Inside::One(key, _) => key.name.len(),
                Inside::Many(_) | Inside::Dead => 0,
            },
            len => usize::from(len) / 2,
        };
        // SAFETY: as above.
        PER_KEY + name + unsafe { self.size() }
    }

    /// The record of an exclusive lock.
    ///
    /// # Safety
    /// An owner must hold the block for all of `'a`, and it must not be a crowd.
    unsafe fn record<'a>(self) -> &'a [u8] {
        // SAFETY: the tag says how `one` has made it; records never change.
        unsafe {
            match self.head().tag {
                LONG => &self.0.cast::<Long>().as_ref().record,
                len => slice::from_raw_parts(self.0.as_ptr().add(HEAD), usize::from(len)),
            }
        }
    }

    fn short(head: Head, record: &[u8]) -> Block {
        let Some(layout) = short_layout(record.len()) else {
            // Not reachable: a short record has at most 255 bytes.
            return Block::boxed(Long { head: Head { tag: LONG, ..head }, record: record.into() });
        };
        // SAFETY: the layout is not empty; both parts fit in it; `Head` has no alignment.
        unsafe {
            let Some(block) = NonNull::new(alloc(layout)) else { handle_alloc_error(layout) };
            block.cast::<Head>().write(head);
            block.as_ptr().add(HEAD).copy_from_nonoverlapping(record.as_ptr(), record.len());
            Block(block)
        }
    }

    fn boxed<T>(value: T) -> Block {
        Block(NonNull::from(Box::leak(Box::new(value))).cast())
    }

    fn head<'a>(self) -> &'a Head {
        // SAFETY: every block begins with one; only its atomic fields ever change.
        unsafe { self.0.cast().as_ref() }
    }

    fn let_go(self, owner: u8) {
        let before = self.head().flags.fetch_and(!owner, Ordering::AcqRel);
        if before & (IN_KEYSPACE | IN_INDEX | KEPT) != owner {
            return;
        }
        // SAFETY: that was the last owner, and the tag says how the block was made.
        unsafe {
            match self.head().tag {
                MANY => drop(Box::from_raw(self.0.cast::<Many>().as_ptr())),
                LONG => drop(Box::from_raw(self.0.cast::<Long>().as_ptr())),
                len => {
                    if let Some(layout) = short_layout(usize::from(len)) {
                        dealloc(self.0.as_ptr(), layout);
                    }
                }
            }
        }
    }
}

fn short_layout(len: usize) -> Option<Layout> {
    Layout::from_size_align(HEAD + len, 1).ok()
}
