//! A module that calls other modules' commands, so that tests can see how they take it.
//!
//! - `CALLER.CALL flags command [arg ...]`: calls with these flags of RM_Call; gives the reply.
//! - `CALLER.SET key value flags command [arg ...]`: sets the key; then calls with these flags, and
//!   passes on what that answers.
//! - `CALLER.KEYS command [arg ...]`: has the keys of that command; does nothing.
//! - `CALLER.ON event command [arg ...]`: from now on, calls from inside every event of this name that
//!   a module or a new key causes, in the middle of whatever command has caused it.
//! - `CALLER.OFF`: no longer.
//! - `CALLER.HEARD`: what those calls were answered, each a line; forgets it.
//!
//! Everything runs on the server's main thread, inside one of its callbacks; strings and contexts
//! are used within the callback that they were given to. That is what makes the calls below safe.

#![allow(clippy::missing_safety_doc, missing_docs, reason = "only a server calls anything here")]

use std::ffi::{CStr, CString, c_char, c_int};
use std::sync::Mutex;

use redis_module::raw;

macro_rules! api {
    ($name:ident ( $($arg:expr),* )) => {
        (raw::$name.expect("the server has it"))($($arg),*)
    };
}

type Ctx = *mut raw::RedisModuleCtx;
type Str = *mut raw::RedisModuleString;

/// The state of CALLER.ON: its request, and the events that followed.
#[derive(Default)]
struct Listener {
    orders: Vec<(Vec<u8>, Vec<Vec<u8>>)>,
    heard: Vec<String>,
}

static LISTENER: Mutex<Listener> = Mutex::new(Listener { orders: Vec::new(), heard: Vec::new() });

#[unsafe(no_mangle)]
pub unsafe extern "C" fn RedisModule_OnLoad(ctx: Ctx, _argv: *mut Str, _argc: c_int) -> c_int {
    let commands: [(&CStr, raw::RedisModuleCmdFunc); 6] = [
        (c"caller.call", Some(call)),
        (c"caller.set", Some(set)),
        (c"caller.keys", Some(keys)),
        (c"caller.on", Some(on)),
        (c"caller.off", Some(off)),
        (c"caller.heard", Some(heard)),
    ];
    // SAFETY: see the top of the file; the callbacks live as long as the server.
    unsafe {
        raw::Export_RedisModule_Init(ctx, c"caller".as_ptr(), 1, 1);
        for (name, run) in commands {
            let flags = if name == c"caller.keys" { c"write getkeys-api" } else { c"write" };
            api!(RedisModule_CreateCommand(ctx, name.as_ptr(), run, flags.as_ptr(), 0, 0, 0));
        }
        let class = (raw::REDISMODULE_NOTIFY_MODULE | raw::REDISMODULE_NOTIFY_NEW) as c_int;
        api!(RedisModule_SubscribeToKeyspaceEvents(ctx, class, Some(on_event)))
    }
}

unsafe extern "C" fn call(ctx: Ctx, argv: *mut Str, argc: c_int) -> c_int {
    // SAFETY: see the top of the file.
    unsafe {
        let args = strings(argv, argc);
        let [_, flags, command, args @ ..] = &args[..] else {
            return api!(RedisModule_WrongArity(ctx));
        };
        pass_on(ctx, run(ctx, flags, command, args));
    }
    0
}

unsafe extern "C" fn set(ctx: Ctx, argv: *mut Str, argc: c_int) -> c_int {
    // SAFETY: see the top of the file.
    unsafe {
        let args = strings(argv, argc);
        let [_, key, value, flags, command, args @ ..] = &args[..] else {
            return api!(RedisModule_WrongArity(ctx));
        };
        let set = run(ctx, b"!", b"SET", &[key.clone(), value.clone()]);
        api!(RedisModule_FreeCallReply(set));
        pass_on(ctx, run(ctx, flags, command, args));
    }
    0
}

unsafe extern "C" fn keys(ctx: Ctx, argv: *mut Str, argc: c_int) -> c_int {
    // SAFETY: see the top of the file; the server gives an array of `count`, or NULL.
    unsafe {
        if api!(RedisModule_IsKeysPositionRequest(ctx)) == 0 {
            return api!(RedisModule_ReplyWithSimpleString(ctx, c"OK".as_ptr()));
        }
        let mut count = 0;
        let (rest, left, none) = (argv.add(1), argc - 1, std::ptr::null_mut());
        let places =
            api!(RedisModule_GetCommandKeysWithFlags(ctx, rest, left, &raw mut count, none));
        for at in 0..if places.is_null() { 0 } else { count as usize } {
            api!(RedisModule_KeyAtPos(ctx, *places.add(at) + 1));
        }
        api!(RedisModule_Free(places.cast()));
    }
    0
}

/// Gives the client a reply, and frees it.
unsafe fn pass_on(ctx: Ctx, reply: *mut raw::RedisModuleCallReply) {
    // SAFETY: see the top of the file.
    unsafe {
        if reply.is_null() {
            api!(RedisModule_ReplyWithError(ctx, c"ERR the call gave no reply".as_ptr()));
            return;
        }
        match api!(RedisModule_CallReplyType(reply)) {
            WAITS => api!(RedisModule_ReplyWithSimpleString(ctx, c"WAITS".as_ptr())),
            _ => api!(RedisModule_ReplyWithCallReply(ctx, reply)),
        };
        api!(RedisModule_FreeCallReply(reply));
    }
}

unsafe extern "C" fn on(ctx: Ctx, argv: *mut Str, argc: c_int) -> c_int {
    // SAFETY: see the top of the file.
    unsafe {
        let mut args = strings(argv, argc);
        let words = args.split_off(2);
        LISTENER.lock().expect("one thread").orders.push((args.remove(1), words));
        api!(RedisModule_ReplyWithSimpleString(ctx, c"OK".as_ptr()))
    }
}

unsafe extern "C" fn off(ctx: Ctx, _argv: *mut Str, _argc: c_int) -> c_int {
    LISTENER.lock().expect("one thread").orders.clear();
    // SAFETY: see the top of the file.
    unsafe { api!(RedisModule_ReplyWithSimpleString(ctx, c"OK".as_ptr())) }
}

unsafe extern "C" fn heard(ctx: Ctx, _argv: *mut Str, _argc: c_int) -> c_int {
    let text = std::mem::take(&mut LISTENER.lock().expect("one thread").heard).join("\n");
    // SAFETY: see the top of the file; the server copies the text.
    unsafe { api!(RedisModule_ReplyWithStringBuffer(ctx, text.as_ptr().cast(), text.len())) }
}

unsafe extern "C" fn on_event(ctx: Ctx, _class: c_int, name: *const c_char, _key: Str) -> c_int {
    // SAFETY: see the top of the file.
    let name = unsafe { CStr::from_ptr(name) }.to_bytes();
    // A called command may cause events itself: those are not answered with calls again.
    let Ok(mut listener) = LISTENER.try_lock() else { return 0 };
    let Listener { orders, heard } = &mut *listener;
    for (_, words) in orders.iter().filter(|(event, _)| event == name) {
        let [command, args @ ..] = &words[..] else { continue };
        // SAFETY: see the top of the file.
        heard.push(unsafe { text_of(run(ctx, b"!E", command, args)) });
    }
    0
}

/// Calls RM_Call. The caller owns the reply.
unsafe fn run(
    ctx: Ctx,
    flags: &[u8],
    command: &[u8],
    args: &[Vec<u8>],
) -> *mut raw::RedisModuleCallReply {
    let command = CString::new(command).expect("a command's name has no zero byte");
    let format = CString::new([flags, b"v"].concat()).expect("flags have no zero byte");
    // SAFETY: the format says a vector of strings, and how many; they are freed after the call.
    unsafe {
        let string =
            |arg: &Vec<u8>| api!(RedisModule_CreateString(ctx, arg.as_ptr().cast(), arg.len()));
        let mut strings: Vec<Str> = args.iter().map(string).collect();
        let call = raw::RedisModule_Call.expect("the server has it");
        let reply =
            call(ctx, command.as_ptr(), format.as_ptr(), strings.as_mut_ptr(), strings.len());
        for string in strings {
            api!(RedisModule_FreeString(ctx, string));
        }
        reply
    }
}

/// A reply as a line of text; it is freed.
unsafe fn text_of(reply: *mut raw::RedisModuleCallReply) -> String {
    if reply.is_null() {
        return "no reply".to_owned();
    }
    // SAFETY: see the top of the file; the bytes are copied before the reply is freed.
    unsafe {
        let mut len = 0;
        let start = api!(RedisModule_CallReplyProto(reply, &raw mut len));
        let bytes = std::slice::from_raw_parts(start.cast::<u8>(), len);
        let text = String::from_utf8_lossy(bytes).trim_end().replace("\r\n", " ");
        api!(RedisModule_FreeCallReply(reply));
        text
    }
}

unsafe fn strings(argv: *mut Str, argc: c_int) -> Vec<Vec<u8>> {
    // SAFETY: by the caller's word, `argc` strings.
    unsafe {
        let argv = std::slice::from_raw_parts(argv, argc as usize);
        let bytes = |arg: &Str| {
            let mut len = 0;
            let start = api!(RedisModule_StringPtrLen(*arg, &raw mut len));
            std::slice::from_raw_parts(start.cast::<u8>(), len).to_vec()
        };
        argv.iter().map(bytes).collect()
    }
}

/// The type of a reply that is still to come: the flag K was given, and the command blocks.
const WAITS: c_int = 12;
