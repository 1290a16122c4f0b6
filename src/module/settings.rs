//! The operator's settings.

use std::ffi::CStr;

use dlock_core::{Millis, Policy, limits};

use crate::ffi::context::now;
use crate::state::{self, State};

/// One setting, `dlock.<name>`, that is a number.
pub struct Number {
    pub name: &'static CStr,
    pub default: u64,
    pub least: u64,
    pub most: u64,
    field: fn(&mut State) -> &mut u64,
}

/// All of these.
pub static NUMBERS: [Number; 3] = [
    Number {
        name: c"max-ttl",
        default: limits::DEFAULT_MAX_TTL,
        least: 1,
        most: limits::MAX_TTL_CEILING,
        field: |state| &mut state.node.settings.max_ttl,
    },
    Number {
        name: c"newborn-quarantine",
        default: limits::DEFAULT_NEWBORN_QUARANTINE,
        least: 0,
        most: limits::MAX_TTL_CEILING,
        field: |state| &mut state.node.settings.newborn_quarantine,
    },
    Number {
        name: c"max-memory-percent",
        default: limits::DEFAULT_MAX_MEMORY_PERCENT,
        least: 1,
        most: 100,
        field: |state| &mut state.store.memory.percent,
    },
];

/// Returns the setting's value.
pub fn get(setting: &Number) -> u64 {
    state::with(|state| *(setting.field)(state)).unwrap_or(setting.default)
}

/// Sets the setting's value.
pub fn set(setting: &Number, value: u64) {
    state::with(|state| *(setting.field)(state) = value);
}

/// One setting, `dlock.<name>`, that is a text.
pub struct Text {
    pub name: &'static CStr,
    /// True if the setting cannot be changed while the server runs.
    pub fixed: bool,
    pub get: fn() -> String,
    pub set: fn(&[u8]) -> Result<(), String>,
}

/// All of these.
pub static TEXTS: [Text; 2] = [
    Text { name: c"quarantine", fixed: false, get: quarantine, set: set_quarantine },
    Text { name: c"state-file", fixed: true, get: state_file, set: set_state_file },
];

fn quarantine() -> String {
    match state::with(|state| state.node.settings.quarantine).unwrap_or_default() {
        Policy::Auto => "auto".to_owned(),
        Policy::Off => "off".to_owned(),
        Policy::Least(least) => least.0.to_string(),
    }
}

fn set_quarantine(value: &[u8]) -> Result<(), String> {
    let policy = match value {
        b"auto" => Policy::Auto,
        b"off" => Policy::Off,
        digits => {
            let number = str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
            let most = limits::MAX_TTL_CEILING;
            let least = number.filter(|ms| (1..=most).contains(ms)).ok_or_else(|| {
                format!("dlock.quarantine is auto, off, or a number of ms from 1 to {most}")
            })?;
            Policy::Least(Millis(least))
        }
    };
    state::with(|state| {
        state.node.settings.quarantine = policy;
        // The timer alone is set: the server may undo this, if it refuses another setting.
        state.set_alarm(now());
    });
    Ok(())
}

fn state_file() -> String {
    state::with(|state| state.store.durability.state_file.clone()).unwrap_or_default()
}

fn set_state_file(value: &[u8]) -> Result<(), String> {
    let Ok(path) = String::from_utf8(value.to_vec()) else {
        return Err("dlock.state-file must be UTF-8".to_owned());
    };
    state::with(|state| state.store.durability.state_file = path);
    Ok(())
}
