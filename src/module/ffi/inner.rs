//! The command inside GUARD and FENCED: where its keys are, and how it is carried out.

use std::ffi::{CStr, c_int};
use std::ptr;

use errno::{Errno, errno, set_errno};
use redis_module::raw;

use dlock_core::command::inner::{self, Refused};

use super::call::{Call, touch_flags};
use super::context::{Ctx, api, server_free, variadic};
use dlock_core::command::Touch;

/// What has become of an inner command.
pub enum Inner<'c> {
    /// It has run, and has a reply; an error perhaps.
    Ran(Reply<'c>),
    /// The server has not begun it. Why, for the client.
    Refused(String),
}

/// The reply of an inner command.
pub struct Reply<'c> {
    ctx: Ctx<'c>,
    raw: *mut raw::RedisModuleCallReply,
}

impl<'c> Call<'c> {
    /// Whether the server only asks where the keys are. Nothing may be done then.
    pub fn asks_for_keys(&self) -> bool {
        // SAFETY: see `context`.
        unsafe { api!(RedisModule_IsKeysPositionRequest(self.ctx.raw())) != 0 }
    }

    /// Tells it: the first argument, and the keys of the command that begins at `inner`.
    pub fn tell_keys(&self, touch: Touch, inner: usize) {
        self.tell_key(1, touch_flags(touch));
        // Asking for the keys of one that nests would come back here, as deep as it is long.
        if self.arg(inner).is_none_or(inner::is_nested) {
            return;
        }
        let (mut count, mut flags): (c_int, *mut c_int) = (0, ptr::null_mut());
        let argv = self.argv.get(inner..).unwrap_or_default();
        let argc = c_int::try_from(argv.len()).unwrap_or(c_int::MAX);
        // SAFETY: the arguments are the server's; it only reads them, and checks their number. It
        // gives two arrays of `count`, which are ours to free, or NULL.
        unsafe {
            let places = api!(RedisModule_GetCommandKeysWithFlags(
                self.ctx.raw(),
                argv.as_ptr().cast_mut(),
                argc,
                &raw mut count,
                &raw mut flags
            ));
            if places.is_null() {
                return;
            }
            for i in 0..usize::try_from(count).unwrap_or(0) {
                let place = usize::try_from(*places.add(i)).unwrap_or(0);
                self.tell_key(inner.saturating_add(place), *flags.add(i));
            }
            server_free(places.cast());
            server_free(flags.cast());
        }
    }

    fn tell_key(&self, place: usize, flags: c_int) {
        let Ok(place) = c_int::try_from(place) else { return };
        // What its keys are is known here, in whatever way the server found them.
        let flags = flags & !(raw::REDISMODULE_CMD_KEY_INCOMPLETE as c_int);
        // SAFETY: see `context`; the server asks for keys just now.
        unsafe { api!(RedisModule_KeyAtPosWithFlags(self.ctx.raw(), place, flags)) };
    }

    /// Carries out the command that begins at `inner`, as the client's own: with its rights, and
    /// as a script could. It can do anything to the keyspace, so nothing of the server's may be
    /// open.
    pub fn carry_out(&self, inner: usize) -> Inner<'c> {
        let mut name = [0; inner::MAX_NAME + 1];
        let given = self.arg(inner).unwrap_or_default();
        match name.get_mut(..given.len()) {
            // One byte is left to end it.
            Some(start) if given.len() <= inner::MAX_NAME => start.copy_from_slice(given),
            _ => return Inner::Refused("ERR unknown command".to_owned()),
        }
        let name = CStr::from_bytes_until_nul(&name).unwrap_or_default();
        let ran = self.call(name, AS_CLIENT, inner);
        // A module that calls with no user's rights has all of them.
        if matches!(ran, Inner::Refused(_)) && errno() == NO_USER {
            return self.call(name, AS_SERVER, inner);
        }
        ran
    }

    fn call(&self, name: &CStr, formats: Formats, inner: usize) -> Inner<'c> {
        let call = variadic!(RedisModule_Call);
        let argv = self.argv.get(inner.saturating_add(1)..).unwrap_or_default();
        let (ctx, name) = (self.ctx.raw(), name.as_ptr());
        let [one, two, three, more] = formats.map(CStr::as_ptr);
        set_errno(RAN);
        // SAFETY: s is a string, v an array of strings and its length; the server takes shares of
        // them. For an array it allocates twice.
        let raw = unsafe {
            match *argv {
                [a] => call(ctx, name, one, a),
                [a, b] => call(ctx, name, two, a, b),
                [a, b, c] => call(ctx, name, three, a, b, c),
                _ => call(ctx, name, more, argv.as_ptr(), argv.len()),
            }
        };
        // The server sets it for whatever it does not begin. What has run may have set it, too.
        let why = errno();
        if raw.is_null() {
            set_errno(why);
            return Inner::Refused("ERR the server gives no reply".to_owned());
        }
        let reply = Reply { ctx: self.ctx, raw };
        if why == RAN {
            return Inner::Ran(reply);
        }
        match reply.error().and_then(|words| refused(why, &words)) {
            Some(words) => {
                drop(reply);
                set_errno(why);
                Inner::Refused(words)
            }
            None => Inner::Ran(reply),
        }
    }
}

/// What the client is told, if this is why the server has not begun a command.
fn refused(why: Errno, words: &str) -> Option<String> {
    let refused = match why {
        UNKNOWN | ARITY => Refused::Unknown,
        RIGHTS => Refused::Rights,
        MEMORY => Refused::Memory,
        SCRIPT => Refused::Script,
        ELSEWHERE => Refused::Elsewhere,
        READ_ONLY_CLUSTER | CLUSTER_DOWN => Refused::ClusterDown,
        NO_USER => return Some(words.to_owned()),
        _ => return None,
    };
    refused.words(words)
}

impl Reply<'_> {
    /// Passes it on.
    pub fn give(self) {
        // SAFETY: the reply is open, in the client's protocol; the server copies it.
        unsafe { api!(RedisModule_ReplyWithCallReply(self.ctx.raw(), self.raw)) };
    }

    fn error(&self) -> Option<String> {
        let mut len = 0;
        // SAFETY: the reply is open; the words are copied.
        unsafe {
            if api!(RedisModule_CallReplyType(self.raw)) != raw::REDISMODULE_REPLY_ERROR as c_int {
                return None;
            }
            let start = api!(RedisModule_CallReplyStringPtr(self.raw, &raw mut len));
            let words = if start.is_null() {
                &[][..]
            } else {
                std::slice::from_raw_parts(start.cast::<u8>(), len)
            };
            Some(String::from_utf8_lossy(words).into_owned())
        }
    }
}

impl Drop for Reply<'_> {
    fn drop(&mut self) {
        // SAFETY: open until now, and used by nobody else.
        unsafe { api!(RedisModule_FreeCallReply(self.raw)) };
    }
}

/// For one argument, for two, for three, and for any number.
type Formats = [&'static CStr; 4];

/// `!` replicates its effects, C takes the client's rights, S is a script's limits, M the memory's;
/// E makes refusals replies, 0 is the client's protocol.
const AS_CLIENT: Formats = [c"!CSME0s", c"!CSME0ss", c"!CSME0sss", c"!CSME0v"];
const AS_SERVER: Formats = [c"!SME0s", c"!SME0ss", c"!SME0sss", c"!SME0v"];

// What RM_Call says by errno, in the numbers of Linux.
const RAN: Errno = Errno(0);
const ELSEWHERE: Errno = Errno(1);
const UNKNOWN: Errno = Errno(2);
const RIGHTS: Errno = Errno(13);
const ARITY: Errno = Errno(22);
const MEMORY: Errno = Errno(28);
const SCRIPT: Errno = Errno(29);
const READ_ONLY_CLUSTER: Errno = Errno(30);
const NO_USER: Errno = Errno(95);
const CLUSTER_DOWN: Errno = Errno(100);
