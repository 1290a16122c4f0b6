//! What the server says of itself.

use std::ffi::CStr;

use redis_module::raw;

use super::context::{Ctx, Name, OK, api, variadic};

impl Ctx<'_> {
    /// Whether the server would let a client write to the key now: its slot may have moved, the
    /// cluster may be down, there may be too few replicas, or a disk that cannot be written to.
    pub fn would_write(self, key: &Name, cluster: bool) -> bool {
        let call = variadic!(RedisModule_Call);
        // To rename a key to itself changes nothing, but is a write in the server's eyes. `S` asks
        // for the checks that a script's writes get (replicas, disk), which in a cluster crashes
        // Valkey 9.1. A refusal is NULL, any reply a yes.
        // SAFETY: the format says two string objects; the reply is freed.
        unsafe {
            let format = if cluster { c"ss" } else { c"Sss" };
            let (raw, format) = (self.raw(), format.as_ptr());
            let reply = call(raw, c"RENAMENX".as_ptr(), format, key.raw(), key.raw());
            if reply.is_null() {
                return false;
            }
            api!(RedisModule_FreeCallReply(reply));
            true
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

    /// Whether there is an AOF, a replica, or a backlog for one. Asks for a page of INFO.
    pub fn has_audience(self) -> bool {
        let flags = self.flags();
        // In a cluster slots can migrate to listeners that no field of INFO counts.
        if flags.has(raw::REDISMODULE_CTX_FLAGS_AOF) || flags.is_replica() || flags.is_cluster() {
            return true;
        }
        // SAFETY: see `context`; the data is freed after its last use.
        unsafe {
            let info = api!(RedisModule_GetServerInfo(self.raw(), c"replication".as_ptr()));
            let is_zero = |field: &CStr| {
                let mut failed = 0;
                let failed_ptr = &raw mut failed;
                let n =
                    api!(RedisModule_ServerInfoGetFieldSigned(info, field.as_ptr(), failed_ptr));
                n == 0 && failed == OK
            };
            let nobody = is_zero(c"connected_slaves") && is_zero(c"repl_backlog_active");
            api!(RedisModule_FreeServerInfo(self.raw(), info));
            !nobody
        }
    }
}
