//! The commands: their registration, handlers and documentation.

use std::ffi::{CString, c_char, c_int};
use std::ptr;
use std::sync::atomic::Ordering;

use redis_module::raw;

use dlock_core::command::Command;
use dlock_core::command::doc::{Arg, Doc, Kind, SINCE};

use crate::ffi::call::{Call, touch_flags};
use crate::ffi::context::{Ctx, OK, api, c_string};
use crate::{commands, fenced_commands, hot, reply};

/// Registers all commands.
pub fn register(ctx: Ctx<'_>) -> Result<(), &'static str> {
    // A category of dlock's own, where the server can have one (Redis 7.4).
    // SAFETY: see `context`.
    let category = unsafe {
        raw::RedisModule_AddACLCategory.is_some_and(|add| add(ctx.raw(), c"dlock".as_ptr()) == OK)
    };
    // Only a cluster needs the keys of the command inside FENCED.
    let is_cluster = ctx.flags().is_cluster();
    let would_crash = is_cluster
        && ctx.version().asks_for_keys_on_threads()
        && ctx.io_threads().is_none_or(|threads| threads > 1);
    fenced_commands::WOULD_CRASH.store(would_crash, Ordering::Relaxed);
    for command in Command::ALL {
        register_one(ctx, *command, category, is_cluster && !would_crash)?;
    }
    Ok(())
}

fn register_one(
    ctx: Ctx<'_>,
    command: Command,
    category: bool,
    tells_keys: bool,
) -> Result<(), &'static str> {
    let doc = command.doc();
    // The server writes its own commands in lower case; clients may use any case.
    let name = c_string(&doc.name.to_ascii_lowercase());
    let flags = if tells_keys { doc.flags } else { doc.flags.trim_end_matches(TELLS_KEYS) };
    let flags = c_string(flags);
    let key = key_position(doc);
    // SAFETY: see `context`; the server copies name and flags.
    let command = unsafe {
        let (first, last, step) = if key == 0 { (0, 0, 0) } else { (key, key, 1) };
        let run = handler(command);
        if api!(RedisModule_CreateCommand(
            ctx.raw(),
            name.as_ptr(),
            run,
            flags.as_ptr(),
            first,
            last,
            step
        )) != OK
        {
            return Err("cannot register a command; is dlock loaded already?");
        }
        api!(RedisModule_GetCommand(ctx.raw(), name.as_ptr()))
    };
    if command.is_null() {
        return Err("the server does not find a command that it has registered");
    }
    // Redis 7.2 and Valkey.
    // SAFETY: as above.
    unsafe {
        if let Some(categorize) = raw::RedisModule_SetCommandACLCategories {
            let own = if category { " dlock" } else { "" };
            let acl = c_string(&format!("{}{own}", doc.acl));
            if categorize(command, acl.as_ptr()) != OK {
                return Err("cannot set a command's ACL categories");
            }
        }
    }
    document(command, doc, key, tells_keys)
}

/// The callback of a command.
fn handler(command: Command) -> raw::RedisModuleCmdFunc {
    macro_rules! enter {
        ($handler:path) => {{
            unsafe extern "C" fn run(
                ctx: *mut raw::RedisModuleCtx,
                argv: *mut *mut raw::RedisModuleString,
                argc: c_int,
            ) -> c_int {
                // SAFETY: the server passes these to a command's callback, until it returns.
                $handler(&unsafe { Call::new(ctx, argv, argc) });
                OK
            }
            Some(run)
        }};
    }
    match command {
        Command::Acquire => enter!(commands::acquire),
        Command::Release => enter!(commands::release),
        Command::Extend => enter!(commands::extend),
        Command::Check => enter!(commands::check),
        Command::Fenced => enter!(fenced_commands::fenced),
        Command::Mark => enter!(fenced_commands::mark),
        Command::Inspect => enter!(commands::inspect),
        Command::Tokens => enter!(commands::tokens),
        Command::Break => enter!(commands::break_lock),
        Command::Hot => enter!(hot::hot),
        Command::Node => enter!(reply::node),
        Command::Help => enter!(reply::help),
        Command::Apply => enter!(commands::apply),
        Command::Promise => enter!(commands::promise),
        Command::Probe => enter!(commands::probe),
    }
}

/// The position of the key; 0: no key.
fn key_position(doc: &Doc) -> c_int {
    let at = doc.args.iter().position(|arg| matches!(arg.kind, Kind::Key));
    at.map_or(0, |at| at as c_int + 1)
}

fn document(
    command: *mut raw::RedisModuleCommand,
    doc: &Doc,
    key: c_int,
    tells_keys: bool,
) -> Result<(), &'static str> {
    let mut texts = Texts::default();
    let mut lists = Vec::new();
    let mut args = arguments(doc.args, &mut texts, &mut lists);
    let mut specs = key_specs(doc, key, tells_keys);
    // SAFETY: all zeros are NULL: no history, no tips.
    let mut info: raw::RedisModuleCommandInfo = unsafe { std::mem::zeroed() };
    info.version = &VERSION.0;
    info.summary = texts.keep(doc.summary);
    info.complexity = texts.keep(doc.complexity);
    info.since = texts.keep(SINCE);
    info.arity = doc.arity;
    info.key_specs = specs.as_mut_ptr();
    info.args = args.as_mut_ptr();
    // SAFETY: every pointer is to a value that lives until the return; the server copies all.
    let set = unsafe { api!(RedisModule_SetCommandInfo(command, &raw const info)) };
    if set == OK { Ok(()) } else { Err("cannot document a command") }
}

/// C strings that live as long as this value.
#[derive(Default)]
struct Texts(Vec<CString>);

impl Texts {
    fn keep(&mut self, text: &str) -> *const c_char {
        let text = c_string(text);
        // The bytes stay where they are when the vector grows.
        let start = text.as_ptr();
        self.0.push(text);
        start
    }
}

fn arguments(
    args: &[Arg],
    texts: &mut Texts,
    lists: &mut Vec<Vec<raw::RedisModuleCommandArg>>,
) -> Vec<raw::RedisModuleCommandArg> {
    let mut list = Vec::new();
    for arg in args {
        // SAFETY: all zeros are NULL and no flags.
        let mut described: raw::RedisModuleCommandArg = unsafe { std::mem::zeroed() };
        described.name = texts.keep(arg.name);
        described.key_spec_index = -1;
        described.token = arg.word.map_or(ptr::null(), |word| texts.keep(word));
        described.flags = if arg.optional { raw::REDISMODULE_CMD_ARG_OPTIONAL as c_int } else { 0 };
        described.type_ = match &arg.kind {
            Kind::Key => {
                described.key_spec_index = 0;
                raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_KEY
            }
            Kind::Text => raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_STRING,
            Kind::Number => raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_INTEGER,
            Kind::Rest => {
                described.flags |= raw::REDISMODULE_CMD_ARG_MULTIPLE as c_int;
                raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_STRING
            }
            Kind::Word => raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_PURE_TOKEN,
            Kind::OneOf(choices) => {
                let mut choices = arguments(choices, texts, lists);
                described.subargs = choices.as_mut_ptr();
                lists.push(choices);
                raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_ONEOF
            }
        };
        list.push(described);
    }
    // SAFETY: all zeros end the list.
    list.push(unsafe { std::mem::zeroed() });
    list
}

fn key_specs(doc: &Doc, key: c_int, tells_keys: bool) -> Vec<raw::RedisModuleCommandKeySpec> {
    // SAFETY: all zeros end the list.
    let end: raw::RedisModuleCommandKeySpec = unsafe { std::mem::zeroed() };
    let Some(touch) = doc.key else { return vec![end] };
    // SAFETY: all zeros are a list's end; the specification's fields follow.
    let mut spec: raw::RedisModuleCommandKeySpec = unsafe { std::mem::zeroed() };
    spec.flags = touch_flags(touch) as u64;
    if doc.flags.ends_with(TELLS_KEYS) && tells_keys {
        // Otherwise the server does not ask for the keys of the inner command.
        spec.flags |= u64::from(raw::REDISMODULE_CMD_KEY_INCOMPLETE);
    }
    spec.begin_search_type = raw::RedisModuleKeySpecBeginSearchType_REDISMODULE_KSPEC_BS_INDEX;
    spec.bs.index.pos = key;
    spec.find_keys_type = raw::RedisModuleKeySpecFindKeysType_REDISMODULE_KSPEC_FK_RANGE;
    spec.fk.range.lastkey = 0;
    spec.fk.range.keystep = 1;
    spec.fk.range.limit = 0;
    vec![spec, end]
}

/// The flag of a command that tells its keys.
const TELLS_KEYS: &str = " getkeys-api";

/// The layout of the structures above, for servers with other layouts.
struct Version(raw::RedisModuleCommandInfoVersion);

// SAFETY: it never changes.
unsafe impl Sync for Version {}

static VERSION: Version = Version(raw::RedisModuleCommandInfoVersion {
    version: 1,
    sizeof_historyentry: size_of::<raw::RedisModuleCommandHistoryEntry>(),
    sizeof_keyspec: size_of::<raw::RedisModuleCommandKeySpec>(),
    sizeof_arg: size_of::<raw::RedisModuleCommandArg>(),
});
