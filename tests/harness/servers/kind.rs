//! The servers that the module is tested with, as scripts/setup.sh leaves them in `.servers/`.

use std::path::{Path, PathBuf};

/// A server and its version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Redis 7.0, the oldest that is supported.
    Redis70,
    /// Redis 8.2.
    Redis82,
    /// Redis 8.6, or a newer one: Debian's archive has one at a time.
    Redis86,
    /// Valkey 8.1.
    Valkey81,
    /// Valkey 9.1.
    Valkey91,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 5] =
        [Kind::Redis70, Kind::Redis82, Kind::Redis86, Kind::Valkey81, Kind::Valkey91];

    /// The name of its executable in `.servers/`.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Redis70 => "redis-7.0",
            Kind::Redis82 => "redis-8.2",
            Kind::Redis86 => "redis-8.6",
            Kind::Valkey81 => "valkey-8.1",
            Kind::Valkey91 => "valkey-9.1",
        }
    }

    /// True for Valkey, false for Redis.
    pub fn is_valkey(self) -> bool {
        matches!(self, Kind::Valkey81 | Kind::Valkey91)
    }

    /// True if its clusters migrate slots as a whole.
    pub fn migrates_slots(self) -> bool {
        matches!(self, Kind::Redis86 | Kind::Valkey91)
    }

    /// Lines of configuration that make a replica follow its primary at once. By default it takes a second:
    /// the primary sends nothing after the data set until the replica acknowledges it, or (Valkey 9) the
    /// replica does not notice that a thread has fetched it. A test about the default asks for that.
    pub fn to_follow_at_once(self) -> &'static [&'static str] {
        match self {
            Kind::Redis82 | Kind::Redis86 => &[],
            Kind::Redis70 | Kind::Valkey81 => &["repl-diskless-sync no"],
            Kind::Valkey91 => &["repl-diskless-sync no", "repl-diskless-load on-empty-db"],
        }
    }

    /// Its executable.
    pub fn executable(self) -> PathBuf {
        let servers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.servers");
        let path = servers.join(self.name());
        assert!(path.exists(), "{} is missing: run `make setup`", path.display());
        path
    }
}
