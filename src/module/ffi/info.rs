//! The lines of `INFO dlock`.

use redis_module::raw;

use super::context::{OK, api, c_string};

/// A section under way.
pub struct InfoLines {
    raw: *mut raw::RedisModuleInfoCtx,
}

impl InfoLines {
    /// Begins the section; `None` if it was not asked for.
    ///
    /// # Safety
    /// The context must belong to a callback that runs for as long as this lives.
    pub unsafe fn begin(raw: *mut raw::RedisModuleInfoCtx) -> Option<InfoLines> {
        // SAFETY: by the function's contract; the name is a C string.
        let wanted = unsafe { api!(RedisModule_InfoAddSection(raw, c"".as_ptr())) } == OK;
        wanted.then_some(InfoLines { raw })
    }

    pub fn number(&mut self, name: &str, value: u64) {
        let name = c_string(name);
        // SAFETY: the context is the callback's; the server copies the name.
        unsafe { api!(RedisModule_InfoAddFieldULongLong(self.raw, name.as_ptr(), value)) };
    }

    pub fn text(&mut self, name: &str, value: &str) {
        let (name, value) = (c_string(name), c_string(value));
        // SAFETY: as above.
        unsafe { api!(RedisModule_InfoAddFieldCString(self.raw, name.as_ptr(), value.as_ptr())) };
    }
}
