//! Every limit, named once.

/// The longest token, in bytes; the shortest is one byte.
pub const MAX_TOKEN: usize = 255;
/// The longest META text, in bytes.
pub const MAX_META: usize = 1024;
/// The most holders that one key can have: readers, or permits of a semaphore.
pub const MAX_HOLDERS: usize = 65_535;
/// The most permits a semaphore can have.
pub const MAX_LIMIT: u64 = MAX_HOLDERS as u64;
/// The largest fence: every client's number type holds it exactly.
pub const MAX_FENCE: u64 = (1 << 53) - 1;
/// How far a fence that is proposed, or that comes with RESTORE, may be ahead of the node's clock:
/// ten minutes in µs.
pub const MAX_FENCE_AHEAD: u64 = 10 * 60 * 1_000_000;
/// How far ahead of the wall clock it moves the fences of other keys, that share a counter with its own:
/// five seconds in µs.
pub const MAX_SHARED_AHEAD: u64 = 5 * 1_000_000;
/// How many keys can have fences farther ahead than that, each remembered with about 100 bytes. One user
/// alone can have half of them.
pub const MAX_KEYS_AHEAD: u64 = 100_000;
/// How far ahead of the floor, where that is farther ahead of the clock than a proposal may be: a minute
/// in µs.
pub const MAX_FLOOR_AHEAD: u64 = 60 * 1_000_000;
/// How far a fence that is shown to a mark may be ahead of the server's clock: a day in µs.
pub const MAX_MARK_AHEAD: u64 = 86_400 * 1_000_000;
/// The longest WAIT, in milliseconds: about 34 years.
pub const MAX_WAIT: u64 = 1 << 40;
/// What `dlock.max-ttl` may be set to, in milliseconds: 49 days.
pub const MAX_TTL_CEILING: u64 = u32::MAX as u64;
/// The default of `dlock.max-ttl`: one day.
pub const DEFAULT_MAX_TTL: u64 = 86_400_000;
/// The default of `dlock.promotion-quarantine`: one hour. A replica that is promoted before its primary
/// has told it anything assumes leases of this length.
pub const DEFAULT_PROMOTION_QUARANTINE: u64 = 3_600_000;
/// The default of `dlock.newborn-quarantine`: one minute. A node without a memory of an earlier life assumes
/// that it has granted leases of this length, and has lost its disk.
pub const DEFAULT_NEWBORN_QUARANTINE: u64 = 60_000;
/// The default of `dlock.usual-ttl`: one hour. What is longer is an exception to the usual bound of
/// leases, and may keep no key but its own in quarantine.
pub const DEFAULT_USUAL_TTL: u64 = 3_600_000;
/// A lease of up to a minute is never an exception.
pub const NEVER_LONG: u64 = 60_000;
/// How many keys can be exceptions, each with a line in the state file. One user alone can have half
/// of them.
pub const MAX_LONG_KEYS: usize = 128;
/// As long as there are fewer, any longer lease becomes one.
pub const FEW_LONG_KEYS: usize = 16;
/// How many writes of the state file a user can force with longer leases within a minute, at most;
/// several users force twice as many together.
pub const MAX_LONG_WRITES: u64 = 64;
/// When the usual bound has grown, and grows again within so many µs, then to a power of two: a
/// minute. From 1 ms to 49 days that is some thirty writes.
pub const GROWS_AGAIN: u64 = 60 * 1_000_000;
/// No bound of leases is larger, in milliseconds: the longest lease, rounded up, is less.
pub const MAX_BOUND: u64 = 1 << 33;
/// What `dlock.max-waiters` may be set to.
pub const MAX_WAITERS_CEILING: u64 = 1_000_000;
/// The default of `dlock.max-waiters`: so many has one user alone. A blocked client costs the server
/// about 35 KB.
pub const DEFAULT_MAX_WAITERS: u64 = 10_000;
/// There is room for so many times as many, so that others always find some.
pub const WAITERS_OF_ALL: u64 = 2;
/// The default of `dlock.max-memory-percent`: how much of `maxmemory` locks can take. What is
/// evicted stays in memory, so with more the server might find no room for anything else.
pub const DEFAULT_MAX_MEMORY_PERCENT: u64 = 50;
/// How many keys EVICTED lists at most, and how many if nothing is said.
pub const MAX_EVICTED_LISTED: u64 = 1_000;
/// See above.
pub const DEFAULT_EVICTED_LISTED: u64 = 100;
/// How many holders INSPECT lists, and how many waiters.
pub const INSPECT_LISTED: usize = 100;
/// The longest KEEP, in milliseconds: a minute.
pub const MAX_KEEP: u64 = 60_000;
/// What `dlock.max-places` may be set to.
pub const MAX_PLACES_CEILING: u64 = 2_000_000;
/// The default of `dlock.max-places`: one user alone can have half of them.
pub const DEFAULT_MAX_PLACES: u64 = 20_000;
/// How many bytes of names and texts count as one place more.
pub const BYTES_PER_PLACE: usize = 512;
/// How much room there is for tokens that were released with FINAL, in a minute.
pub const MAX_FINALS: u64 = 20_000;
/// For how long at least they are remembered, in µs: a minute.
pub const FINAL_LASTS: u64 = 60 * 1_000_000;
/// How many from the front of a queue are looked at for one whose turn is next.
pub const MAX_TURNS: usize = 256;
/// How many servers of one cluster a client knows by their names. More do not make a cluster.
pub const MAX_SERVERS_OF_A_NODE: usize = 1024;
/// How many keys HOT knows, and lists at most.
pub const HOT_KEYS: usize = 128;
/// How many it lists if nothing is said.
pub const DEFAULT_HOT_LISTED: u64 = 10;
/// How many bytes of a key's name HOT keeps.
pub const HOT_NAME: usize = 256;
/// How many slow waits and long holds are kept.
pub const SLOW_ENTRIES: usize = 128;
/// How many SLOW lists if nothing is said.
pub const DEFAULT_SLOW_LISTED: u64 = 10;
/// How many bytes of a key's name and of a META text SLOW keeps.
pub const SLOW_TEXT: usize = 128;
/// What `dlock.slow-wait-ms` and `dlock.long-hold-ms` may be set to: 49 days.
pub const MAX_SLOW: u64 = MAX_TTL_CEILING;
