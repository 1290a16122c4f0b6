//! Every limit, named once.

use crate::words::Millis;

/// The longest key, in bytes: queues, indexes and logs copy and compare it.
pub const MAX_KEY: usize = 16_384;
/// The longest token, in bytes; the shortest is one byte.
pub const MAX_TOKEN: usize = 255;
/// The longest META text, in bytes.
pub const MAX_META: usize = 1024;
/// The most holders that one key can have: readers, or permits of a semaphore.
pub const MAX_HOLDERS: usize = 65_535;
/// The most permits a semaphore can have.
pub const MAX_LIMIT: u64 = MAX_HOLDERS as u64;
/// The largest fence: number types of all clients can store it exactly.
pub const MAX_FENCE: u64 = (1 << 53) - 1;
/// The largest lead of a fence that is proposed, or that comes with RESTORE, over the node's clock:
/// ten minutes in µs.
pub const MAX_FENCE_AHEAD: u64 = 10 * 60 * 1_000_000;
/// The largest lead of a fence in µs: five seconds more than a proposal, for the grants after it.
pub const MAX_LEAD: u64 = MAX_FENCE_AHEAD + 5 * 1_000_000;
/// A proposal raises the shared counter, and so the fences of other keys, to at most this far ahead of the wall
/// clock: five seconds in µs.
pub const MAX_SHARED_AHEAD: u64 = 5 * 1_000_000;
/// The largest number of keys with fences farther ahead than that, about 170 bytes each. One user alone can
/// have half of them.
pub const MAX_KEYS_AHEAD: u64 = 100_000;
/// The largest lead over the floor, where the floor is farther ahead than a proposal may be: a minute
/// in µs.
pub const MAX_FLOOR_AHEAD: u64 = 60 * 1_000_000;
/// The largest lead over the server's clock of a fence that is shown to a mark: a day in µs.
pub const MAX_MARK_AHEAD: u64 = 86_400 * 1_000_000;
/// The longest WAIT, in milliseconds: about 34 years.
pub const MAX_WAIT: u64 = 1 << 40;
/// The longest time-out of a request to a node, in milliseconds: an hour.
pub const MAX_NODE_TIMEOUT: u64 = 3_600_000;
/// The largest value of `dlock.max-ttl`, in milliseconds: 49 days.
pub const MAX_TTL_CEILING: u64 = u32::MAX as u64;
/// The default of `dlock.max-ttl`: ten minutes.
pub const DEFAULT_MAX_TTL: u64 = 600_000;
/// The default of `dlock.newborn-quarantine`: one minute. A node without a state file assumes that it has lost
/// its disk, and has granted leases of this length.
pub const DEFAULT_NEWBORN_QUARANTINE: u64 = 60_000;
/// If the lease bound grows again within this many µs, it grows to a power of two: a minute. From 1 ms to 49
/// days that takes about thirty writes.
pub const GROWS_AGAIN: u64 = 60 * 1_000_000;
/// The largest lease bound, in milliseconds: the longest lease, rounded up, is less.
pub const MAX_BOUND: u64 = 1 << 33;
/// The most blocked requests of one user on a node. A blocked client costs the server about 35 KB.
pub const MAX_WAITERS: u64 = 10_000;
/// All users together have room for this many times as many, so that other users always find some.
pub const WAITERS_OF_ALL: u64 = 2;
/// The default of `dlock.max-memory-percent`: the share of `maxmemory` that locks can take.
pub const DEFAULT_MAX_MEMORY_PERCENT: u64 = 50;
/// The number of ends that a node keeps for evicted leases, eight bytes each.
pub const EVICTED_ENDS: usize = 4096;
/// The number of holders that INSPECT lists, and of waiters.
pub const INSPECT_LISTED: usize = 100;
/// The longest KEEP, in milliseconds: a minute.
pub const MAX_KEEP: u64 = 60_000;
/// The longest time that a lock can be done, in milliseconds: about 400 days.
pub const MAX_DONE_FOR: u64 = 400 * 24 * 3600 * 1000;
/// The most done locks of one user on a node.
pub const MAX_DONE: u64 = 100_000;
/// The most places of waiters that are away: one user alone can have half of them.
pub const MAX_PLACES: u64 = 20_000;
/// A number limit counts one unit more for each so many bytes of names and texts.
pub const BYTES_PER_UNIT: usize = 512;
/// The number of tokens that are remembered after FINAL, the newest: a table of a megabyte.
pub const FINAL_TOKENS: usize = 65_536;
/// The longest time that they are remembered: a minute.
pub const FINAL_LASTS: Millis = Millis(60_000);
/// The number of waiters at the front of a queue that are checked for TURN.
pub const MAX_TURNS: usize = 256;
/// The largest number of servers of one cluster that a client recognises by their identities.
pub const MAX_SERVERS_OF_A_NODE: usize = 1024;
/// The largest number of keys that HOT counts and lists.
pub const HOT_KEYS: usize = 128;
/// The number of keys that HOT lists by default.
pub const DEFAULT_HOT_LISTED: u64 = 10;
/// HOT keeps this many bytes of a key's name.
pub const HOT_NAME: usize = 256;
