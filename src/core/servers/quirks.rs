//! The differences between versions of Redis and Valkey, and dlock's answers to them. To support another
//! server, begin here.
//!
//! A question that depends on the version is a method of [`Version`], with its reason. These quirks need
//! no method, because one way suits all servers:
//!
//! - Redis 7.0 has no function for Unix time (`ffi::context::unix_micros`), and has fewer callbacks of types
//!   (`ffi::kind`).
//! - Redis 8.6 asks the module, while slots move, for the keys of what it replicates (`fenced_commands`).

/// Two families, each with versions of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Redis, and any server that gives only a Redis version.
    Redis,
    /// Valkey. It gives the version Redis 7.2.4, too.
    Valkey,
}

/// The server's version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    /// The server's family.
    pub family: Family,
    /// Major and minor; zeros if unknown.
    number: (u64, u64),
}

impl Version {
    /// Reads the version from INFO: `valkey_version`, if there is one, else `redis_version`.
    #[must_use]
    pub fn of(valkey: Option<&[u8]>, redis: Option<&[u8]>) -> Version {
        let family = if valkey.is_some() { Family::Valkey } else { Family::Redis };
        let number = valkey.or(redis).and_then(major_and_minor).unwrap_or_default();
        Version { family, number }
    }

    /// True for Valkey 8.1, which delivers events on the connection of the running command, in the database of
    /// the key, and leaves the connection there. After a MOVE or a COPY into another database the client would
    /// continue in that database, and replicas would carry the MOVE out there. So on this version dlock listens
    /// only to evictions, which come before or after a command.
    #[must_use]
    pub fn key_events_do_harm(self) -> bool {
        self.family == Family::Valkey && self.number == (8, 1)
    }

    /// True if a blocked client may have a callback for time-outs: then CLIENT UNBLOCK can end its wait. Before
    /// Redis 7.4 and Valkey 8 it must not: a client that was unblocked twice in one iteration of the event loop
    /// got no reply, or stopped the server.
    #[must_use]
    pub fn may_have_timeout_callback(self) -> bool {
        self.is_at_least((7, 4), (8, 0))
    }

    /// True from Redis 8 and Valkey 8 on. They ask for the keys of a command on their threads for clients, Redis 8.6 also
    /// without a cluster. If a module answers there, the server crashes.
    #[must_use]
    pub fn asks_for_keys_on_threads(self) -> bool {
        self.is_at_least((8, 0), (8, 0))
    }

    /// True for Redis 7 and Valkey 7, which give database 0 for every key that they load.
    #[must_use]
    pub fn loads_all_into_database_0(self) -> bool {
        !self.is_at_least((8, 0), (8, 0))
    }

    /// True for Redis 8.4 and Valkey 9, which move slots as a whole, each with its own events and numbers.
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

/// Major and minor, such as 8 and 2 of 8.2.3.
fn major_and_minor(version: &[u8]) -> Option<(u64, u64)> {
    let mut numbers = core::str::from_utf8(version).ok()?.split('.').map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
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
