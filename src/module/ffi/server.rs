//! The server's version, configuration and state.

use std::ffi::CStr;

use nix::errno::Errno;
use redis_module::raw;

use dlock_core::Serves;
use dlock_core::servers::quirks::{Family, Version};

use super::context::{Ctx, Name, OK, api, variadic};
use super::inner::{ELSEWHERE, NO_USER, Reply, text_of};

impl<'c> Ctx<'c> {
    /// Tells if the server would accept a client's write to the key now. Its slot may have moved, the cluster
    /// may be down, there may be too few replicas, or the disk may refuse writes.
    ///
    /// No key may be open: the server can read the key, and free it if it has expired.
    pub fn serves(self, key: &Name) -> Serves {
        if self.refuses(key, c"SEs").is_none() {
            Serves::Yes
        } else if self.flags().is_cluster() && self.refuses(key, c"Es") == Some(ELSEWHERE) {
            Serves::Moved
        } else {
            Serves::Later
        }
    }

    /// The code of the server's error for writes, if it takes none now.
    pub fn refusal(self) -> Option<&'static str> {
        if self.flags().is_out_of_memory() {
            return Some("OOM");
        }
        let (reply, why) = self.probe(Name::new(b"dlock").raw(), c"SEs");
        if reply.is_good() || why == ELSEWHERE {
            return None;
        }
        let words = reply.error().unwrap_or_default();
        let code = ["MISCONF", "NOREPLICAS"].into_iter().find(|code| words.starts_with(code));
        // The server's words about its cluster have no code.
        code.or(Some("CLUSTERDOWN"))
    }

    /// True if the command runs as a user: other modules can call without one. The server looks for the user first, and
    /// then refuses this call, which has no key: a key may be open.
    pub(super) fn has_user(self) -> bool {
        let call = variadic!(RedisModule_Call);
        Errno::clear();
        // SAFETY: C calls as the user of this command, and E makes a refusal a reply.
        let raw = unsafe { call(self.raw(), c"DLOCK.PROBE".as_ptr(), c"CE".as_ptr()) };
        let why = Errno::last_raw();
        drop(Reply { ctx: self, raw });
        why != NO_USER
    }

    /// The errno of the server's refusal of a write to the key, before the command runs. S makes the server
    /// check what it checks for scripts, E makes a refusal a reply, and the slot is always checked.
    fn refuses(self, key: &Name, format: &CStr) -> Option<i32> {
        let (reply, why) = self.probe(key.raw(), format);
        (!reply.is_good()).then_some(why)
    }

    /// Calls a command that does nothing and has a reply. Returns the reply, and errno.
    pub(super) fn probe(self, key: *mut raw::RedisModuleString, format: &CStr) -> (Reply<'c>, i32) {
        let call = variadic!(RedisModule_Call);
        Errno::clear();
        // SAFETY: s is a string object.
        let raw = unsafe { call(self.raw(), c"DLOCK.PROBE".as_ptr(), format.as_ptr(), key) };
        let why = Errno::last_raw();
        (Reply { ctx: self, raw }, why)
    }

    /// Cancels all migrations of slots as a whole. False: the server refused.
    pub fn cancel_migrations(self) -> bool {
        let call = variadic!(RedisModule_Call);
        let (all, cancel) = (c"ALL".as_ptr(), c"CANCEL".as_ptr());
        let (what, format) = if self.version().family == Family::Valkey {
            (c"CANCELSLOTMIGRATIONS".as_ptr(), c"Ec".as_ptr())
        } else {
            (c"MIGRATION".as_ptr(), c"Eccc".as_ptr())
        };
        // SAFETY: see `context`; c is a C string, and further arguments are not read.
        let raw = unsafe { call(self.raw(), c"CLUSTER".as_ptr(), format, what, cancel, all) };
        Reply { ctx: self, raw }.is_good()
    }

    /// The server's version.
    pub fn version(self) -> Version {
        let [valkey, redis] =
            [c"valkey_version", c"redis_version"].map(|field| self.server_text(c"server", field));
        Version::of(valkey.as_deref(), redis.as_deref())
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

    /// The setting `io-threads`, if the server tells it.
    pub fn io_threads(self) -> Option<u64> {
        let call = variadic!(RedisModule_Call);
        let (get, name) = (c"GET".as_ptr(), c"io-threads".as_ptr());
        // SAFETY: c is a C string. What is read belongs to the reply.
        unsafe {
            let raw = call(self.raw(), c"CONFIG".as_ptr(), c"Ecc".as_ptr(), get, name);
            let reply = Reply { ctx: self, raw };
            let value = reply.element(raw, 1)?;
            std::str::from_utf8(text_of(value)).ok()?.parse().ok()
        }
    }

    /// The port that the server listens on, 0 if on none.
    pub fn port(self) -> u64 {
        u64::try_from(self.info_number(c"server", c"tcp_port").unwrap_or(0)).unwrap_or(0)
    }

    /// `maxmemory`, if there is one.
    pub fn max_memory(self) -> Option<u64> {
        let most = self.info_number(c"memory", c"maxmemory")?;
        u64::try_from(most).ok().filter(|most| *most > 0)
    }

    /// True if a replica is connected.
    pub fn has_replicas(self) -> bool {
        self.info_number(c"replication", c"connected_slaves") != Some(0)
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

    /// True if there is an AOF, a replica, or a backlog for one. Asks for a page of INFO.
    pub fn has_audience(self) -> bool {
        let flags = self.flags();
        // In a cluster slots can migrate to receivers that no field of INFO counts.
        if flags.has_log() || flags.is_replica() || flags.is_cluster() {
            return true;
        }
        self.has_replicas() || self.info_number(c"replication", c"repl_backlog_active") != Some(0)
    }
}
