//! The command inside FENCED: its keys, and its execution.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::ffi::{CStr, c_int};
use std::ptr;

use nix::errno::Errno;
use redis_module::raw;

use dlock_core::command::inner::{self, Refused};

use super::call::{Call, touch_flags};
use super::context::{Ctx, api, server_free, variadic};
use dlock_core::command::Touch;

/// The outcome of an inner command.
pub enum Inner<'c> {
    /// The command has run, and has a reply, perhaps an error.
    Ran(Reply<'c>),
    /// The command has run, and its reply is lost.
    NoReply,
    /// The command has not begun: the error for the client.
    Refused(String),
}

/// The reply of an inner command.
pub struct Reply<'c> {
    pub(super) ctx: Ctx<'c>,
    pub(super) raw: *mut raw::RedisModuleCallReply,
}

impl<'c> Call<'c> {
    /// True if the server only asks for the positions of keys. Then the call must do nothing, and touch no
    /// state of the module: servers ask before they check rights, and some ask on another thread than the main
    /// one.
    pub fn asks_for_keys(&self) -> bool {
        // SAFETY: see `context`.
        unsafe { api!(RedisModule_IsKeysPositionRequest(self.ctx.raw())) != 0 }
    }

    /// Answers with the first argument, and the keys of the command that begins at `inner`.
    pub fn tell_keys(&self, touch: Touch, inner: usize) {
        self.tell_key(1, touch_flags(touch));
        // A command that is refused when it runs has no keys. Among these is FENCED itself in all of its
        // spellings: the server may end a name at its first zero byte.
        if self.arg(inner).is_none_or(|name| inner::check(name).is_err()) {
            return;
        }
        // Another module's command may ask for the keys of this one again.
        if !LOOKS_FOR_KEYS.replace(true) {
            self.tell_inner_keys(inner);
            LOOKS_FOR_KEYS.set(false);
        }
    }

    fn tell_inner_keys(&self, inner: usize) {
        let (mut count, mut flags): (c_int, *mut c_int) = (0, ptr::null_mut());
        let argv = self.argv.get(inner..).unwrap_or_default();
        let argc = c_int::try_from(argv.len()).unwrap_or(c_int::MAX);
        // SAFETY: the arguments are the server's; it only reads them, and checks their number. It
        // gives two arrays of `count`, which are ours to free, or NULL.
        unsafe {
            let positions = api!(RedisModule_GetCommandKeysWithFlags(
                self.ctx.raw(),
                argv.as_ptr().cast_mut(),
                argc,
                &raw mut count,
                &raw mut flags
            ));
            if positions.is_null() {
                return;
            }
            for i in 0..usize::try_from(count).unwrap_or(0) {
                let position = usize::try_from(*positions.add(i)).unwrap_or(0);
                self.tell_key(inner.saturating_add(position), *flags.add(i));
            }
            server_free(positions.cast());
            server_free(flags.cast());
        }
    }

    fn tell_key(&self, position: usize, flags: c_int) {
        let Ok(position) = c_int::try_from(position) else { return };
        // The keys are complete here, in whatever way the server found them.
        let flags = flags & !(raw::REDISMODULE_CMD_KEY_INCOMPLETE as c_int);
        // SAFETY: see `context`; the server asks for keys just now.
        unsafe { api!(RedisModule_KeyAtPosWithFlags(self.ctx.raw(), position, flags)) };
    }

    /// Runs the command that begins at `inner`, as the client's own: with its rights, and with a script's
    /// limits. It can do anything to the keyspace, so no key may be open.
    pub fn carry_out(&self, inner: usize) -> Inner<'c> {
        let mut name = [0; inner::MAX_NAME + 1];
        let given = self.arg(inner).unwrap_or_default();
        match name.get_mut(..given.len()) {
            // The buffer's last byte stays zero and ends the name.
            Some(start) if given.len() <= inner::MAX_NAME && !given.contains(&0) => {
                start.copy_from_slice(given);
            }
            _ => return Inner::Refused("ERR unknown command".to_owned()),
        }
        let name = CStr::from_bytes_until_nul(&name).unwrap_or_default();
        let (raw, why) = self.call(name, inner);
        let reply = Reply { ctx: self.ctx, raw };
        if !reply.is_one() {
            drop(reply);
            self.take_what_is_left();
            return Inner::NoReply;
        }
        if reply.is_error() {
            self.take_what_is_left();
        }
        if why == RAN {
            return Inner::Ran(reply);
        }
        match reply.error().and_then(|words| refused(why, &words)) {
            Some(words) => Inner::Refused(words),
            None => Inner::Ran(reply),
        }
    }

    /// Returns the reply, and errno: the reason why the server has not begun the command, if it has not. A
    /// command that has run may have set errno, too.
    fn call(&self, name: &CStr, inner: usize) -> (*mut raw::RedisModuleCallReply, i32) {
        let call = variadic!(RedisModule_Call);
        let argv = self.argv.get(inner.saturating_add(1)..).unwrap_or_default();
        let (ctx, name, format) = (self.ctx.raw(), name.as_ptr(), AS_CLIENT.as_ptr());
        Errno::set_raw(RAN);
        // SAFETY: v is an array of strings and its length; the server takes shares of them.
        let raw = unsafe { call(ctx, name, format, argv.as_ptr(), argv.len()) };
        (raw, Errno::last_raw())
    }

    /// Takes replies that a command may have left in the server's internal client. The server uses that client
    /// again for the next caller, which would get this command's reply, or its error, too. A call with exactly
    /// one reply shows that nothing is left.
    fn take_what_is_left(&self) {
        let Some(key) = self.argv.get(1) else { return };
        for _ in 0..MOST_PROBES {
            let (reply, _) = self.ctx.probe(*key, c"Es");
            if reply.is_one() {
                return;
            }
        }
    }

    /// True if the command that begins at `inner` is the server's own, or does not exist. Another
    /// module's command may block the client of this call, which stops the server. If the server does not name
    /// the owner, it may be another module.
    pub fn may_be_inside(&self, inner: usize) -> bool {
        let Some(given) = self.arg(inner) else { return true };
        let name = given.to_ascii_uppercase();
        OF_THE_SERVER.with_borrow(|all| all.contains(&name)) || {
            let whose = self.whose(inner);
            if whose == Some(Whose::Server) {
                OF_THE_SERVER.with_borrow_mut(|all| all.insert(name));
            }
            matches!(whose, Some(Whose::Server | Whose::Nobody))
        }
    }

    /// Asks the server for the owner of the command that begins at `inner`. `None`: it names none.
    fn whose(&self, inner: usize) -> Option<Whose> {
        let call = variadic!(RedisModule_Call);
        let name = self.argv.get(inner)?;
        let (command, what) = (c"COMMAND".as_ptr(), c"INFO".as_ptr());
        // SAFETY: c is a C string, s a string. What is read belongs to the reply.
        unsafe {
            let raw = call(self.ctx.raw(), command, c"Ecs".as_ptr(), what, *name);
            let reply = Reply { ctx: self.ctx, raw };
            let info = reply.element(raw, 0)?;
            if api!(RedisModule_CallReplyType(info)) == raw::REDISMODULE_REPLY_NULL as c_int {
                return Some(Whose::Nobody);
            }
            let flags = reply.element(info, 2)?;
            let mut all = (0..).map_while(|at| reply.element(flags, at));
            let is_module = all.any(|flag| text_of(flag) == b"module");
            Some(if is_module { Whose::Module } else { Whose::Server })
        }
    }
}

/// The owner of a command.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Whose {
    Server,
    Module,
    Nobody,
}

/// The client's error, if the server has not begun a command for this reason.
fn refused(why: i32, words: &str) -> Option<String> {
    let refused = match why {
        UNKNOWN | ARITY => Refused::Unknown,
        RIGHTS | NO_USER => Refused::Rights,
        MEMORY => Refused::Memory,
        SCRIPT => Refused::Script,
        ELSEWHERE => Refused::Elsewhere,
        READ_ONLY_CLUSTER | CLUSTER_DOWN => Refused::ClusterDown,
        _ => return None,
    };
    refused.words(words)
}

impl Reply<'_> {
    /// Sends the reply to the client.
    pub fn give(self) {
        // SAFETY: the reply is open, in the client's protocol; the server copies it.
        unsafe { api!(RedisModule_ReplyWithCallReply(self.ctx.raw(), self.raw)) };
    }

    /// True if there is exactly one reply. The caller asks before anything else: the server returns the length
    /// of all replies only until it has looked at the first, and then that one's length.
    fn is_one(&self) -> bool {
        if self.raw.is_null() {
            return false;
        }
        let (mut all, mut first) = (0, 0);
        // SAFETY: the reply is open; only lengths are read.
        unsafe {
            api!(RedisModule_CallReplyProto(self.raw, &raw mut all));
            let kind = api!(RedisModule_CallReplyType(self.raw));
            api!(RedisModule_CallReplyProto(self.raw, &raw mut first));
            kind != raw::REDISMODULE_REPLY_UNKNOWN as c_int && all == first
        }
    }

    /// True if it is a reply, and no error.
    pub(super) fn is_good(&self) -> bool {
        !self.raw.is_null() && !self.is_error()
    }

    fn is_error(&self) -> bool {
        // SAFETY: the reply is open.
        let kind = unsafe { api!(RedisModule_CallReplyType(self.raw)) };
        kind == raw::REDISMODULE_REPLY_ERROR as c_int
    }

    pub(super) fn error(&self) -> Option<String> {
        // SAFETY: the reply is open; the words are copied.
        self.is_error().then(|| unsafe { String::from_utf8_lossy(text_of(self.raw)).into_owned() })
    }

    /// A part of an array.
    ///
    /// # Safety
    /// The array must be this reply, or a part of it, or NULL.
    pub(super) unsafe fn element(
        &self,
        array: *mut raw::RedisModuleCallReply,
        at: usize,
    ) -> Option<*mut raw::RedisModuleCallReply> {
        // SAFETY: by the function's contract; a reply that is not an array has no elements.
        let part = unsafe {
            if array.is_null()
                || api!(RedisModule_CallReplyType(array)) != raw::REDISMODULE_REPLY_ARRAY as c_int
            {
                return None;
            }
            api!(RedisModule_CallReplyArrayElement(array, at))
        };
        (!part.is_null()).then_some(part)
    }
}

/// The text of a reply.
///
/// # Safety
/// The reply must stay open for all of `'a`.
pub(super) unsafe fn text_of<'a>(reply: *mut raw::RedisModuleCallReply) -> &'a [u8] {
    let mut len = 0;
    // SAFETY: by the function's contract; a reply that is not a text has none.
    unsafe {
        let start = api!(RedisModule_CallReplyStringPtr(reply, &raw mut len));
        if start.is_null() { &[] } else { std::slice::from_raw_parts(start.cast::<u8>(), len) }
    }
}

impl Drop for Reply<'_> {
    fn drop(&mut self) {
        if !self.raw.is_null() {
            // SAFETY: open until now, and not used again.
            unsafe { api!(RedisModule_FreeCallReply(self.raw)) };
        }
    }
}

thread_local! {
    /// True while this thread looks for the keys of an inner command: it does so once at a time, even in a
    /// nested request.
    static LOOKS_FOR_KEYS: Cell<bool> = const { Cell::new(false) };
    /// Names of the server's own commands. This is constant: no module can take such a name.
    static OF_THE_SERVER: RefCell<BTreeSet<Vec<u8>>> = const { RefCell::new(BTreeSet::new()) };
}

/// One call takes all that is left.
const MOST_PROBES: usize = 3;

/// `!` replicates its effects, C takes the client's rights, S is a script's limits, M the memory's;
/// E makes refusals replies, 0 is the client's protocol, v are all arguments.
const AS_CLIENT: &CStr = c"!CSME0v";

// The errno values of RM_Call, in the numbers of Linux.
const RAN: i32 = 0;
pub(super) const ELSEWHERE: i32 = 1;
const UNKNOWN: i32 = 2;
const RIGHTS: i32 = 13;
const ARITY: i32 = 22;
const MEMORY: i32 = 28;
const SCRIPT: i32 = 29;
const READ_ONLY_CLUSTER: i32 = 30;
pub(super) const NO_USER: i32 = 95;
const CLUSTER_DOWN: i32 = 100;
