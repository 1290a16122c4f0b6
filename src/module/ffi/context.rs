//! The context of a call from the server: replies, replication, events and strings.
//!
//! Unless a comment says otherwise, a call into the server is safe here. The server passed the context for the
//! length of one callback, [`Ctx`] lives no longer, and everything runs on the server's main thread.

use std::ffi::{CStr, CString, c_char, c_int, c_long, c_longlong, c_void};
use std::fmt::Display;
use std::io::Write;
use std::marker::PhantomData;
use std::ptr;
use std::slice;
use std::time::{SystemTime, UNIX_EPOCH};

use redis_module::raw;

use dlock_core::{ClientId, Instant, Owner, Promise};

/// Calls a function of the server's interface.
macro_rules! api {
    ($name:ident ( $($arg:expr),* $(,)? )) => {
        match raw::$name {
            Some(function) => function($($arg),*),
            None => $crate::ffi::context::missing(),
        }
    };
}
pub(crate) use api;

/// Returns a variadic function of the server's interface.
macro_rules! variadic {
    ($name:ident) => {{
        // SAFETY: written once, when the module was loaded, before anything else ran.
        let function = unsafe { raw::$name };
        match function {
            Some(function) => function,
            None => $crate::ffi::context::missing(),
        }
    }};
}
pub(crate) use variadic;

/// Aborts. Not reachable: `load` has checked that the server has the functions of Redis 7.0.
#[cold]
pub fn missing() -> ! {
    std::process::abort()
}

/// The context of one callback.
#[derive(Clone, Copy)]
pub struct Ctx<'c> {
    raw: *mut raw::RedisModuleCtx,
    callback: PhantomData<&'c ()>,
}

/// The monotonic clock.
pub fn now() -> Instant {
    // SAFETY: takes nothing.
    Instant(unsafe { api!(RedisModule_MonotonicMicroseconds()) })
}

/// Unix time in microseconds. Redis 7.0 has no function for it.
pub fn unix_micros() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

/// The class of a keyspace event.
#[derive(Clone, Copy)]
pub enum Class {
    /// `d`: events of modules.
    Own,
    /// `g`: events of all keys.
    Generic,
}

/// The flags of a context.
#[derive(Clone, Copy)]
pub struct Flags(c_int);

impl<'c> Ctx<'c> {
    /// # Safety
    /// The server must have handed it to a callback that runs for all of `'c`.
    pub unsafe fn new(raw: *mut raw::RedisModuleCtx) -> Ctx<'c> {
        Ctx { raw, callback: PhantomData }
    }

    pub fn raw(self) -> *mut raw::RedisModuleCtx {
        self.raw
    }

    /// The connection that sent the command.
    pub fn client(self) -> ClientId {
        // SAFETY: see above.
        ClientId(unsafe { api!(RedisModule_GetClientId(self.raw)) })
    }

    /// True if that connection is open.
    pub fn is_connected(self, client: ClientId) -> bool {
        // SAFETY: NULL asks for nothing but the verdict.
        unsafe { api!(RedisModule_GetClientInfoById(ptr::null_mut(), client.0)) == OK }
    }

    /// True if the command comes from a connection that can close. The clients of scripts and other modules
    /// last as long as the server does.
    pub fn has_connection(self, client: ClientId) -> bool {
        let flags = self.flags();
        // Only its own MULTI denies blocking to a connection.
        let by_itself = !flags.denies_blocking() || flags.has(raw::REDISMODULE_CTX_FLAGS_MULTI);
        by_itself && !flags.has(raw::REDISMODULE_CTX_FLAGS_LUA) && self.is_connected(client)
    }

    /// The number of the user that the command runs as, in a script, too. Requests of other modules
    /// without a user count for one user.
    pub fn owner(self) -> Owner {
        if !self.has_user() {
            return Owner(0);
        }
        // SAFETY: older servers look for a user without a check, and there is one. The server returns a string of its
        // own, or NULL. The string is freed once, after its last use.
        unsafe {
            let name = api!(RedisModule_GetCurrentUserName(self.raw));
            if name.is_null() {
                return Owner(0);
            }
            let owner = Owner::of(bytes_of(name));
            api!(RedisModule_FreeString(self.raw, name));
            owner
        }
    }

    /// The database that the command works on.
    pub fn db(self) -> u32 {
        // SAFETY: see above.
        let db = unsafe { api!(RedisModule_GetSelectedDb(self.raw)) };
        u32::try_from(db).unwrap_or(0)
    }

    /// Selects another database, in a context of our own. False: there is no such database.
    pub fn select(self, db: u32) -> bool {
        let Ok(db) = c_int::try_from(db) else { return false };
        // SAFETY: see above; a number that is no database changes nothing.
        unsafe { api!(RedisModule_SelectDb(self.raw, db)) == OK }
    }

    /// The flags of this call. Not cheap: the server computes more than needed.
    pub fn flags(self) -> Flags {
        // SAFETY: see above.
        Flags(unsafe { api!(RedisModule_GetContextFlags(self.raw)) })
    }

    /// True if the module must not write on its own now: writes are paused, for a fail-over for example, and
    /// the server would abort if it had to propagate one.
    pub fn avoids_traffic(self) -> bool {
        // SAFETY: takes nothing.
        unsafe { api!(RedisModule_AvoidReplicaTraffic()) != 0 }
    }
}

/// Writes to the server's log.
pub fn log(level: &CStr, message: &str) {
    let message = c_string(&format!("dlock: {message}"));
    // SAFETY: the server takes NULL for a module without a name; the format takes one C string.
    unsafe {
        if let Some(log) = raw::RedisModule_Log {
            log(ptr::null_mut(), level.as_ptr(), c"%s".as_ptr(), message.as_ptr());
        }
    }
}

/// dlock's own errors are far shorter.
const LONGEST_ERROR: usize = 1023;

/// Replies, which the server copies. It refuses a reply if the client is gone, which is harmless.
impl Ctx<'_> {
    pub fn reply_int(self, n: u64) {
        raw::reply_with_long_long(self.raw, signed(n));
    }

    pub fn reply_null(self) {
        raw::reply_with_null(self.raw);
    }

    pub fn reply_text(self, text: impl AsRef<[u8]>) {
        let text = text.as_ref();
        raw::reply_with_string_buffer(self.raw, text.as_ptr().cast(), text.len());
    }

    pub fn reply_status(self, text: &str) {
        let text = c_string(text);
        raw::reply_with_simple_string(self.raw, text.as_ptr());
    }

    /// Replies with an error, as far as it fits.
    pub fn reply_error(self, text: impl Display) {
        let mut room = [0; LONGEST_ERROR + 1];
        if let Some(mut room) = room.get_mut(..LONGEST_ERROR) {
            // Fails at the end of the room.
            let _ = write!(room, "{text}");
        }
        // SAFETY: the text ends with a zero byte; the server copies it.
        unsafe { api!(RedisModule_ReplyWithError(self.raw, room.as_ptr().cast())) };
    }

    pub fn reply_wrong_arity(self) {
        // SAFETY: see above.
        unsafe { api!(RedisModule_WrongArity(self.raw)) };
    }

    pub fn reply_array(self, len: usize) {
        raw::reply_with_array(self.raw, len as c_long);
    }

    /// Replies with a map of this many pairs; RESP2 gets an array of twice as many elements.
    pub fn reply_map(self, len: usize) {
        raw::reply_with_map(self.raw, len as c_long);
    }
}

/// Messages to replicas, the AOF, listeners and watchers.
impl Ctx<'_> {
    /// Replicates the command as it came.
    pub fn replicate_verbatim(self) {
        raw::replicate_verbatim(self.raw);
    }

    /// Replicates an effect, as DLOCK.APPLY.
    pub fn replicate_apply(self, key: &Name, effect: &[u8], meta: &[u8]) {
        let replicate = variadic!(RedisModule_Replicate);
        let format = if meta.is_empty() { c"sb" } else { c"sbb" };
        // SAFETY: the arguments are what the format says: s a string object, b a pointer and a length. All are
        // copied or retained. More arguments than the format names are not read.
        unsafe {
            replicate(
                self.raw,
                c"DLOCK.APPLY".as_ptr(),
                format.as_ptr(),
                key.raw,
                effect.as_ptr().cast::<c_char>(),
                effect.len(),
                meta.as_ptr().cast::<c_char>(),
                meta.len(),
            )
        };
    }

    /// Sends an effect ahead of a snapshot of slots, on Redis, in the child process that sends it. False:
    /// the server refused it.
    pub fn send_ahead(self, key: &Name, effect: &[u8]) -> bool {
        // SAFETY: written once, when the module was loaded.
        let Some(send) = (unsafe { raw::RedisModule_ClusterPropagateForSlotMigration }) else {
            return false;
        };
        let (name, format) = (c"DLOCK.APPLY".as_ptr(), c"sb".as_ptr());
        // SAFETY: as in `replicate_apply`.
        unsafe {
            let effect = (effect.as_ptr().cast::<c_char>(), effect.len());
            send(self.raw, name, format, key.raw, effect.0, effect.1) == OK
        }
    }

    /// Replicates the promise in the state file.
    pub fn replicate_promise(self, promise: &Promise) {
        let replicate = variadic!(RedisModule_Replicate);
        let Promise { fence, unix, bound, quarantine } = promise;
        let [fence, bound, unix, quarantine] = [fence.0, bound.0, *unix, quarantine.0].map(signed);
        let (name, format) = (c"DLOCK.PROMISE".as_ptr(), c"llll".as_ptr());
        // SAFETY: as in `replicate_apply`; l is a long long.
        unsafe { replicate(self.raw, name, format, fence, bound, unix, quarantine) };
    }

    /// Sends a keyspace event.
    pub fn notify(self, class: Class, event: &CStr, key: &Name) {
        let class = match class {
            Class::Own => raw::REDISMODULE_NOTIFY_MODULE as c_int,
            Class::Generic => raw::REDISMODULE_NOTIFY_GENERIC as c_int,
        };
        // SAFETY: see above.
        unsafe { api!(RedisModule_NotifyKeyspaceEvent(self.raw, class, event.as_ptr(), key.raw)) };
    }

    /// Tells WATCH and client tracking that the key has changed.
    pub fn signal_modified(self, key: &Name) {
        // SAFETY: see above.
        unsafe { api!(RedisModule_SignalModifiedKey(self.raw, key.raw)) };
    }
}

impl Flags {
    pub fn has(self, flag: u32) -> bool {
        self.0 & flag as c_int != 0
    }

    /// True inside MULTI, a script or another module's call, where nothing may block.
    pub fn denies_blocking(self) -> bool {
        self.has(raw::REDISMODULE_CTX_FLAGS_DENY_BLOCKING)
    }

    /// True for a command from the primary, or from the log that is being loaded.
    pub fn is_replay(self) -> bool {
        self.has(raw::REDISMODULE_CTX_FLAGS_REPLICATED)
            || self.has(raw::REDISMODULE_CTX_FLAGS_LOADING)
    }

    /// True if the server keeps an AOF.
    pub fn has_log(self) -> bool {
        self.has(raw::REDISMODULE_CTX_FLAGS_AOF)
    }

    /// True if the server uses more memory than `maxmemory` allows.
    pub fn is_out_of_memory(self) -> bool {
        self.has(raw::REDISMODULE_CTX_FLAGS_OOM)
    }

    pub fn is_replica(self) -> bool {
        self.has(raw::REDISMODULE_CTX_FLAGS_SLAVE)
    }

    pub fn is_cluster(self) -> bool {
        self.has(raw::REDISMODULE_CTX_FLAGS_CLUSTER)
    }
}

/// A key's name as a string of the server.
pub struct Name {
    raw: *mut raw::RedisModuleString,
    /// The bytes, so that the server need not be asked each time.
    bytes: *const [u8],
    /// The bytes of a name that could move.
    copy: Box<[u8]>,
    owned: bool,
}

/// Longer strings can move: other modules get the same strings with key events, and may trim them. Up to this
/// length all servers keep the bytes in one piece with the string.
const LONGEST_AT_REST: usize = 44;

/// The bytes at a fixed address: in the string, or else in `copy`.
pub fn at_rest<'a>(bytes: &'a [u8], copy: &'a mut Box<[u8]>) -> &'a [u8] {
    if bytes.len() <= LONGEST_AT_REST {
        return bytes;
    }
    *copy = bytes.into();
    copy
}

impl Name {
    /// # Safety
    /// The string must live as long as the name.
    pub unsafe fn borrowed(raw: *mut raw::RedisModuleString) -> Name {
        // SAFETY: by the function's contract.
        unsafe { Name::of(raw, false) }
    }

    pub fn new(bytes: &[u8]) -> Name {
        // SAFETY: without a context the string is ours to free, when the name is dropped; the server
        // copies the bytes.
        unsafe {
            let start = bytes.as_ptr().cast();
            let raw = api!(RedisModule_CreateString(ptr::null_mut(), start, bytes.len()));
            Name::of(raw, true)
        }
    }

    /// # Safety
    /// The string must live as long as the name.
    unsafe fn of(raw: *mut raw::RedisModuleString, owned: bool) -> Name {
        let mut copy = Box::default();
        // SAFETY: by the function's contract.
        let bytes = unsafe { bytes_of(raw) };
        at_rest(bytes, &mut copy);
        Name { raw, bytes, copy, owned }
    }

    pub fn bytes(&self) -> &[u8] {
        if !self.copy.is_empty() {
            return &self.copy;
        }
        // SAFETY: the string lives as long as the name; one that is not copied stays where it is.
        unsafe { &*self.bytes }
    }

    pub fn raw(&self) -> *mut raw::RedisModuleString {
        self.raw
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        if self.owned {
            // SAFETY: `new` made it, without a context.
            unsafe { api!(RedisModule_FreeString(ptr::null_mut(), self.raw)) };
        }
    }
}

/// The bytes of a string of the server.
///
/// # Safety
/// The string must live, unchanged, for all of `'a`.
pub unsafe fn bytes_of<'a>(string: *const raw::RedisModuleString) -> &'a [u8] {
    let mut len = 0;
    // SAFETY: by the function's contract; the server returns a pointer to `len` bytes.
    unsafe {
        let start = api!(RedisModule_StringPtrLen(string, &raw mut len));
        if start.is_null() { &[] } else { slice::from_raw_parts(start.cast(), len) }
    }
}

/// A C string without the zero bytes of the text.
pub fn c_string(text: &str) -> CString {
    let without_zeros = || CString::new(text.replace('\0', ""));
    CString::new(text).or_else(|_| without_zeros()).unwrap_or_default()
}

fn signed(n: u64) -> c_longlong {
    c_longlong::try_from(n).unwrap_or(c_longlong::MAX)
}

pub const OK: c_int = 0;
pub const ERR: c_int = 1;

/// Frees memory that the server allocated.
pub unsafe fn server_free(ptr: *mut c_void) {
    // SAFETY: by the function's contract.
    unsafe { api!(RedisModule_Free(ptr)) };
}
