//! In what versions of Redis and Valkey differ, and what dlock does about it. To support another server,
//! begin here.
//!
//! What is asked of a version is a method of [`Version`], with its reason. Where one way suits all servers
//! nothing is asked, though one of them is the reason:
//!
//! - Redis 7.0 has no function for Unix time (`ffi::context::unix_micros`), and knows fewer callbacks of types
//!   (`ffi::kind`).
//! - Redis 8 answers from other threads with `io-threads`, before the log is written: such a log is not
//!   complete (`ffi::server::log_is_complete`).
//! - Redis 8.6 asks, while slots move, for the keys of what it replicates (`ffi::mark`).
//! - Redis 7.0 sends a replica what was written since its data set was copied once a second, later ones when the
//!   replica acknowledges (`ffi::server::acknowledge`).

use core::ffi::CStr;

/// Two families, each with versions of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Redis, and whatever says of itself no more than a version of Redis.
    Redis,
    /// Valkey. It says that it is Redis 7.2.4, too.
    Valkey,
}

/// The server's version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    /// Whose it is.
    pub family: Family,
    /// Major and minor; zeros: it is not known.
    number: (u64, u64),
}

impl Version {
    /// By what INFO says: `valkey_version`, if it is there, and `redis_version`.
    #[must_use]
    pub fn of(valkey: Option<&[u8]>, redis: Option<&[u8]>) -> Version {
        let family = if valkey.is_some() { Family::Valkey } else { Family::Redis };
        let number = valkey.or(redis).and_then(major_and_minor).unwrap_or_default();
        Version { family, number }
    }

    /// Valkey 8.1 tells events on the connection whose command it carries out, in the database of the
    /// key, and leaves the connection there. After a MOVE or a COPY into another database the client
    /// would go on in that one, and replicas would carry the MOVE out there. So there dlock listens to evictions
    /// alone, which come before a command or after it, never from it; and it searches for what has moved.
    #[must_use]
    pub fn key_events_do_harm(self) -> bool {
        self.family == Family::Valkey && self.number == (8, 1)
    }

    /// With a callback for time-outs CLIENT UNBLOCK ends a wait. Before Redis 7.4 and Valkey 8 it must not be
    /// there: a client that was unblocked twice in one iteration of the event loop got no reply, or stopped
    /// the server.
    #[must_use]
    pub fn may_have_timeout_callback(self) -> bool {
        self.is_at_least((7, 4), (8, 0))
    }

    /// Redis 7 and Valkey 7 say of all that they load that it is of database 0.
    #[must_use]
    pub fn loads_all_into_database_0(self) -> bool {
        !self.is_at_least((8, 0), (8, 0))
    }

    /// Redis 8.4 and Valkey 9 move slots as a whole. Each has events and numbers of its own for it.
    #[must_use]
    pub fn moves_slots_as_a_whole(self) -> bool {
        self.is_at_least((8, 4), (9, 0))
    }

    fn is_at_least(self, redis: (u64, u64), valkey: (u64, u64)) -> bool {
        let least = match self.family {
            Family::Redis => redis,
            Family::Valkey => valkey,
        };
        self.number >= least
    }
}

/// Valkey 9 says in a transaction that a key has moved to the database that it comes from. No version is asked:
/// then the key is looked for, which others do not need.
#[must_use]
pub fn may_name_the_wrong_database(event: &[u8], in_transaction: impl Fn() -> bool) -> bool {
    event == b"move_to" && in_transaction()
}

/// 8 and 2 of 8.2.3.
fn major_and_minor(version: &[u8]) -> Option<(u64, u64)> {
    let mut numbers = core::str::from_utf8(version).ok()?.split('.').map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// A server that the module refuses, whatever version it says it is, told by a field of its INFO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unfit {
    /// The section of INFO.
    pub section: &'static CStr,
    /// A field that no other server has there.
    pub field: &'static CStr,
    /// Why it is refused, and what to do.
    pub why: &'static str,
}

/// All of them.
pub const UNFIT: [Unfit; 1] = [Unfit {
    section: c"keydb",
    field: c"mvcc_depth",
    why: "this server is KeyDB: it has the module interface of Redis 6 and runs commands on several threads, \
          and dlock needs Redis 7.0 or Valkey 7.2, or later",
}];

/// Why this server is refused, if it is. `has` tells whether its INFO has a field.
pub fn refusal(has: impl Fn(&CStr, &CStr) -> bool) -> Option<&'static str> {
    UNFIT.iter().find(|server| has(server.section, server.field)).map(|server| server.why)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redis(version: &str) -> Version {
        Version::of(None, Some(version.as_bytes()))
    }

    fn valkey(version: &str) -> Version {
        Version::of(Some(version.as_bytes()), Some(b"7.2.4"))
    }

    #[test]
    fn keydb_is_refused_by_its_name_and_others_are_not() {
        let keydb = |section: &CStr, field: &CStr| (section, field) == (c"keydb", c"mvcc_depth");
        assert!(refusal(keydb).is_some_and(|why| why.contains("KeyDB")));
        let redis =
            |section: &CStr, field: &CStr| (section, field) == (c"server", c"redis_version");
        assert_eq!(refusal(redis), None);
    }

    #[test]
    fn each_quirk_is_that_of_its_versions() {
        let all = [
            redis("7.0.15"),
            redis("7.4.1"),
            redis("8.2.3"),
            redis("8.4.0"),
            valkey("7.2.5"),
            valkey("8.0.1"),
            valkey("8.1.8"),
            valkey("9.1.2"),
            redis("unknown"),
        ];
        let of = |quirk: fn(Version) -> bool| all.map(|version| u8::from(quirk(version)));
        assert_eq!(of(Version::key_events_do_harm), [0, 0, 0, 0, 0, 0, 1, 0, 0]);
        assert_eq!(of(Version::may_have_timeout_callback), [0, 1, 1, 1, 0, 1, 1, 1, 0]);
        assert_eq!(of(Version::loads_all_into_database_0), [1, 1, 0, 0, 1, 0, 0, 0, 1]);
        assert_eq!(of(Version::moves_slots_as_a_whole), [0, 0, 0, 1, 0, 0, 0, 1, 0]);
    }
}
