//! What the server says of itself.

use std::ffi::{CStr, c_int, c_longlong};

use redis_module::raw;

use super::context::{Ctx, Name, OK, api, variadic};

/// How to ask a server whether it would let a client write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probe {
    /// By a plain call: in a cluster, which refuses what it does not serve.
    Plain,
    /// By a call that is checked as a script's are, for replicas and disk.
    Checked,
    /// By a script: Valkey 9 crashes when it refuses a checked call.
    Script,
}

impl Ctx<'_> {
    /// The way that suits this server.
    pub fn probe(self) -> Probe {
        let valkey = self.server_version(c"valkey_version");
        let major = |version: &Vec<u8>| version.split(|byte| *byte == b'.').next().map(<[u8]>::len);
        let nine_or_later = |version: &Vec<u8>| {
            major(version).is_some_and(|digits| digits > 1) || version.first() >= Some(&b'9')
        };
        if self.flags().is_cluster() {
            Probe::Plain
        } else if valkey.as_ref().is_some_and(nine_or_later) {
            Probe::Script
        } else {
            Probe::Checked
        }
    }

    /// Whether the server would let a client write to the key now: its slot may have moved, the
    /// cluster may be down, there may be too few replicas, or a disk that cannot be written to.
    pub fn would_write(self, key: &Name, probe: Probe) -> bool {
        // To rename a key to itself changes nothing, but is a write in the server's eyes.
        let (call, raw, key) = (variadic!(RedisModule_Call), self.raw(), key.raw());
        // SAFETY: the arguments are what the formats say: s a string object, c a C string, l a
        // long long; the reply is freed.
        unsafe {
            let reply = match probe {
                Probe::Plain => call(raw, c"RENAMENX".as_ptr(), c"ss".as_ptr(), key, key),
                Probe::Checked => call(raw, c"RENAMENX".as_ptr(), c"Sss".as_ptr(), key, key),
                Probe::Script => {
                    let (script, keys) = (RENAME.as_ptr(), 1 as c_longlong);
                    call(raw, c"EVAL".as_ptr(), c"cls".as_ptr(), script, keys, key)
                }
            };
            if reply.is_null() {
                return false;
            }
            let refused = probe == Probe::Script && is_refusal(reply);
            api!(RedisModule_FreeCallReply(reply));
            !refused
        }
    }

    /// A version that the server says of itself; `None` if it has none of that name.
    pub fn server_version(self, field: &CStr) -> Option<Vec<u8>> {
        // SAFETY: see `context`; the text is copied before the data is freed.
        unsafe {
            let info = api!(RedisModule_GetServerInfo(self.raw(), c"server".as_ptr()));
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
        needed.iter().all(|(name, value)| self.is_configured(name, value))
    }

    fn is_configured(self, name: &CStr, value: &CStr) -> bool {
        let call = variadic!(RedisModule_Call);
        // SAFETY: see `context`; the formats and arguments agree; the reply is freed after its
        // parts, which belong to it, have been read.
        unsafe {
            let (get, name) = (c"GET".as_ptr(), name.as_ptr());
            let reply = call(self.raw(), c"CONFIG".as_ptr(), c"cc".as_ptr(), get, name);
            if reply.is_null() {
                return false;
            }
            let element = api!(RedisModule_CallReplyArrayElement(reply, 1));
            let mut len = 0;
            let text = if element.is_null() {
                std::ptr::null()
            } else {
                api!(RedisModule_CallReplyStringPtr(element, &raw mut len))
            };
            let same = !text.is_null()
                && std::slice::from_raw_parts(text.cast::<u8>(), len) == value.to_bytes();
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
        if flags.has(raw::REDISMODULE_CTX_FLAGS_AOF) || flags.is_replica() || flags.is_cluster() {
            return true;
        }
        self.has_replicas() || self.info_number(c"replication", c"repl_backlog_active") != Some(0)
    }
}

/// Tells a refused write from one that had nothing to do.
const RENAME: &CStr = c"local reply = redis.pcall('RENAMENX', KEYS[1], KEYS[1]) \
    if type(reply) == 'table' and reply.err and not reply.err:find('no such key', 1, true) then \
    return 'refused' end return 1";

/// # Safety
/// The reply must be one of `RedisModule_Call`, not freed yet.
unsafe fn is_refusal(reply: *mut raw::RedisModuleCallReply) -> bool {
    // SAFETY: by the caller's word.
    unsafe { api!(RedisModule_CallReplyType(reply)) != raw::REDISMODULE_REPLY_INTEGER as c_int }
}
