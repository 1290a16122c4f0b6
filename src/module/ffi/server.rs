//! What the server says of itself.

use std::ffi::{CStr, c_int};

use redis_module::raw;

use dlock_core::Serves;

use super::context::{Ctx, Name, OK, api, variadic};

impl Ctx<'_> {
    /// Whether the server would let a client write to the key now: its slot may have moved, the
    /// cluster may be down, there may be too few replicas, or a disk that cannot be written to.
    ///
    /// Nothing of the server's may be open: it can look at the key, and free what has expired.
    pub fn serves(self, key: &Name) -> Serves {
        if self.is_let_through(key, c"SEs") {
            Serves::Yes
        } else if self.flags().is_cluster() && !self.is_let_through(key, c"Es") {
            Serves::Moved
        } else {
            Serves::Later
        }
    }

    /// Whether a write to the key gets as far as its command: S lets the server check what it
    /// checks for scripts, E makes a refusal a reply, and the slot is checked in any case.
    fn is_let_through(self, key: &Name, format: &CStr) -> bool {
        let call = variadic!(RedisModule_Call);
        // SAFETY: s is a string object; the reply is freed after its last use.
        unsafe {
            let reply = call(self.raw(), c"DLOCK.PROBE".as_ptr(), format.as_ptr(), key.raw());
            if reply.is_null() {
                return false;
            }
            let kind = api!(RedisModule_CallReplyType(reply));
            api!(RedisModule_FreeCallReply(reply));
            kind != raw::REDISMODULE_REPLY_ERROR as c_int
        }
    }

    /// Cancels all migrations of slots away from here. Whether the server did.
    pub fn cancel_migrations(self) -> bool {
        let call = variadic!(RedisModule_Call);
        let (command, what) = (c"CLUSTER".as_ptr(), c"CANCELSLOTMIGRATIONS".as_ptr());
        // SAFETY: see `context`; c is a C string; the reply is freed after its last use.
        unsafe {
            let reply = call(self.raw(), command, c"Ec".as_ptr(), what);
            if reply.is_null() {
                return false;
            }
            let kind = api!(RedisModule_CallReplyType(reply));
            api!(RedisModule_FreeCallReply(reply));
            kind != raw::REDISMODULE_REPLY_ERROR as c_int
        }
    }

    /// A version that the server says of itself; `None` if it has none of that name.
    pub fn server_version(self, field: &CStr) -> Option<Vec<u8>> {
        self.server_text(c"server", field)
    }

    /// Whether the server is this version or a later one: of Redis, or of Valkey.
    pub fn is_at_least(self, redis: (u64, u64), valkey: (u64, u64)) -> bool {
        let own = self.server_version(c"valkey_version").map(|version| (version, valkey));
        let own = own.or_else(|| self.server_version(c"redis_version").map(|it| (it, redis)));
        own.is_some_and(|(version, least)| major_and_minor(&version) >= Some(least))
    }

    /// A field of INFO.
    pub fn server_text(self, section: &CStr, field: &CStr) -> Option<Vec<u8>> {
        // SAFETY: see `context`; the text is copied before the data is freed.
        unsafe {
            let info = api!(RedisModule_GetServerInfo(self.raw(), section.as_ptr()));
            let text = api!(RedisModule_ServerInfoGetFieldC(info, field.as_ptr()));
            let version = (!text.is_null()).then(|| CStr::from_ptr(text).to_bytes().to_vec());
            api!(RedisModule_FreeServerInfo(self.raw(), info));
            version
        }
    }

    /// The port that the server listens on, 0 if on none.
    pub fn port(self) -> u64 {
        u64::try_from(self.info_number(c"server", c"tcp_port").unwrap_or(0)).unwrap_or(0)
    }

    /// Whether clients have been here already.
    pub fn had_connections(self) -> bool {
        self.info_number(c"stats", c"total_connections_received") != Some(0)
    }

    /// `maxmemory`, if there is one.
    pub fn max_memory(self) -> Option<u64> {
        let most = self.info_number(c"memory", c"maxmemory")?;
        u64::try_from(most).ok().filter(|most| *most > 0)
    }

    /// Whether a replica is connected.
    pub fn has_replicas(self) -> bool {
        self.info_number(c"replication", c"connected_slaves") != Some(0)
    }

    /// Whether this server keeps a log that misses nothing after any crash: everything is in it
    /// before any client hears of it, and a log that lost its end is not taken for a whole one.
    pub fn log_is_complete(self) -> bool {
        let needed = [
            (c"appendonly", c"yes"),
            (c"appendfsync", c"always"),
            (c"no-appendfsync-on-rewrite", c"no"),
            (c"aof-load-truncated", c"no"),
            // Redis 8 answers from other threads, before the log is written.
            (c"io-threads", c"1"),
        ];
        needed.iter().all(|(name, value)| self.is_configured(name, value) == Some(true))
    }

    /// Whether the server says how it is configured: CONFIG can be renamed, or disabled.
    pub fn tells_configuration(self) -> bool {
        self.is_configured(c"appendonly", c"").is_some()
    }

    /// Whether the parameter has this value. `None`: the server does not say.
    fn is_configured(self, name: &CStr, value: &CStr) -> Option<bool> {
        let call = variadic!(RedisModule_Call);
        // SAFETY: see `context`; the formats and arguments agree; the reply is freed after its
        // parts, which belong to it, have been read.
        unsafe {
            let (get, name) = (c"GET".as_ptr(), name.as_ptr());
            let reply = call(self.raw(), c"CONFIG".as_ptr(), c"cc".as_ptr(), get, name);
            if reply.is_null() {
                return None;
            }
            let element = api!(RedisModule_CallReplyArrayElement(reply, 1));
            let mut len = 0;
            let text = if element.is_null() {
                std::ptr::null()
            } else {
                api!(RedisModule_CallReplyStringPtr(element, &raw mut len))
            };
            let same = (!text.is_null())
                .then(|| std::slice::from_raw_parts(text.cast::<u8>(), len) == value.to_bytes());
            api!(RedisModule_FreeCallReply(reply));
            same
        }
    }

    fn info_number(self, section: &CStr, field: &CStr) -> Option<i64> {
        // SAFETY: see `context`; the data is freed after its last use.
        unsafe {
            let info = api!(RedisModule_GetServerInfo(self.raw(), section.as_ptr()));
            let mut failed = 0;
            let n =
                api!(RedisModule_ServerInfoGetFieldSigned(info, field.as_ptr(), &raw mut failed));
            api!(RedisModule_FreeServerInfo(self.raw(), info));
            (failed == OK).then_some(n)
        }
    }

    /// Whether there is an AOF, a replica, or a backlog for one. Asks for a page of INFO.
    pub fn has_audience(self) -> bool {
        let flags = self.flags();
        // In a cluster slots can migrate to listeners that no field of INFO counts.
        if flags.has_log() || flags.is_replica() || flags.is_cluster() {
            return true;
        }
        self.has_replicas() || self.info_number(c"replication", c"repl_backlog_active") != Some(0)
    }
}

/// 8 and 2 of 8.2.3.
fn major_and_minor(version: &[u8]) -> Option<(u64, u64)> {
    let mut numbers = str::from_utf8(version).ok()?.split('.').map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}
