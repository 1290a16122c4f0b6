//! What an operator can set.

use std::ffi::CStr;

use dlock_core::command::Settings;
use dlock_core::limits;

use crate::state;

/// One setting, `dlock.<name>`. All are numbers from 1 on.
pub struct Setting {
    pub name: &'static CStr,
    pub default: u64,
    pub most: u64,
    field: fn(&mut Settings) -> &mut u64,
}

/// All of them.
pub static ALL: [Setting; 2] = [
    Setting {
        name: c"max-ttl",
        default: limits::DEFAULT_MAX_TTL,
        most: limits::MAX_TTL_CEILING,
        field: |settings| &mut settings.max_ttl,
    },
    Setting {
        name: c"max-waiters",
        default: limits::DEFAULT_MAX_WAITERS,
        most: limits::MAX_WAITERS_CEILING,
        field: |settings| &mut settings.max_waiters,
    },
];

/// What it is.
pub fn get(setting: &Setting) -> u64 {
    state::with(|state| *(setting.field)(&mut state.node.settings)).unwrap_or(setting.default)
}

/// What it is from now on.
pub fn set(setting: &Setting, value: u64) {
    state::with(|state| *(setting.field)(&mut state.node.settings) = value);
}
