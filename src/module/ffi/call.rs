//! A command's arguments.

use std::ffi::c_int;
use std::slice;

use redis_module::raw;

use dlock_core::command::doc::Touch;

use super::context::{Ctx, Name, at_rest, bytes_of};

/// A command's arguments.
pub struct Call<'c> {
    pub ctx: Ctx<'c>,
    pub(super) argv: &'c [*mut raw::RedisModuleString],
}

impl<'c> Call<'c> {
    /// # Safety
    /// The server must have given these to a command's callback that runs for all of `'c`.
    pub unsafe fn new(
        ctx: *mut raw::RedisModuleCtx,
        argv: *mut *mut raw::RedisModuleString,
        argc: c_int,
    ) -> Call<'c> {
        let argc = usize::try_from(argc).unwrap_or(0);
        // SAFETY: the server gives `argc` arguments, and keeps context and arguments until the
        // callback returns.
        unsafe { Call { ctx: Ctx::new(ctx), argv: slice::from_raw_parts(argv, argc) } }
    }

    /// The argument at this position; the command's name is at 0.
    pub fn arg(&self, at: usize) -> Option<&'c [u8]> {
        // SAFETY: the server keeps the arguments unchanged until the command returns.
        self.argv.get(at).map(|arg| unsafe { bytes_of(*arg) })
    }

    /// The bytes of the key at this position; a copy, if other modules could change the string while the
    /// command runs.
    pub fn key<'a>(&self, at: usize, copy: &'a mut Box<[u8]>) -> Option<&'a [u8]>
    where
        'c: 'a,
    {
        self.arg(at).map(|bytes| at_rest(bytes, copy))
    }

    /// The key at this position.
    pub fn name(&self, at: usize) -> Option<Name> {
        // SAFETY: as above; the name is used within the command.
        self.argv.get(at).map(|arg| unsafe { Name::borrowed(*arg) })
    }

    /// The arguments from this position on; `None` if there are more than any command takes.
    pub fn rest<'b>(&self, from: usize, room: &'b mut Room<'c>) -> Option<&'b [&'c [u8]]> {
        let args = self.argv.get(from..)?;
        let room = room.get_mut(..args.len())?;
        for (position, arg) in room.iter_mut().zip(args) {
            // SAFETY: as above.
            *position = unsafe { bytes_of(*arg) };
        }
        Some(room)
    }

    /// The number of arguments, the name included.
    pub fn len(&self) -> usize {
        self.argv.len()
    }
}

/// The buffer of [`Call::rest`]: more than ACQUIRE with every option needs.
pub type Room<'c> = [&'c [u8]; 16];

/// The server's flags for a command's effect on a key.
pub fn touch_flags(touch: Touch) -> c_int {
    let (rights, effect) = match touch {
        Touch::Reads => (raw::REDISMODULE_CMD_KEY_RO, 0),
        Touch::Makes => (raw::REDISMODULE_CMD_KEY_RW, raw::REDISMODULE_CMD_KEY_INSERT),
        Touch::Changes => (raw::REDISMODULE_CMD_KEY_RW, raw::REDISMODULE_CMD_KEY_UPDATE),
        Touch::Removes => (raw::REDISMODULE_CMD_KEY_RW, raw::REDISMODULE_CMD_KEY_DELETE),
    };
    (raw::REDISMODULE_CMD_KEY_ACCESS | rights | effect) as c_int
}
