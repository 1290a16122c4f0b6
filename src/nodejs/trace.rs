//! The library's log lines, for `node:diagnostics_channel`.
//!
//! Lines are queued with the outcomes for an event loop, and the library does not wait for that loop.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Once, PoisonError, Weak};
use std::time::{SystemTime, UNIX_EPOCH};

use dlock_bindings::events::{self, Level, Listener};
use dlock_bindings::value::Record;
use napi_derive::napi;

use crate::event_loop::{EventLoop, OutcomeQueue};

/// Sets whether an event loop wants the lines of this process.
#[napi(catch_unwind)]
pub fn listen(queue: &OutcomeQueue, lines: bool) {
    let event_loop = Arc::downgrade(&queue.event_loop());
    let mut loops = LOOPS.lock().unwrap_or_else(PoisonError::into_inner);
    loops.retain(|other| other.strong_count() > 0 && !other.ptr_eq(&event_loop));
    if lines {
        loops.push(event_loop);
        LISTENS.call_once(|| events::listen(Log));
    }
    LINES.store(!loops.is_empty(), Ordering::Relaxed);
}

struct Log;

impl Listener for Log {
    fn wants(&self, level: Level) -> bool {
        level <= Level::DEBUG && LINES.load(Ordering::Relaxed)
    }

    fn line(&self, line: events::Line) {
        let line = message(line);
        // This must not block: a line is lost while the list is locked.
        let Ok(loops) = LOOPS.try_lock() else { return };
        loops
            .iter()
            .filter_map(Weak::upgrade)
            .for_each(|event_loop| event_loop.push_line(line.clone()));
    }
}

/// An object of TypeScript's type `LogMessage`.
fn message(line: events::Line) -> Record {
    let fields = line.fields.into_iter().map(|(name, value)| (name, value.into())).collect();
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let fields = vec![
        ("level", line.level.as_str().to_lowercase().into()),
        ("message", line.message.into()),
        ("fields", Record { kind: "", fields }.into()),
        ("time", since.into()),
    ];
    Record { kind: "LogMessage", fields }
}

static LOOPS: Mutex<Vec<Weak<EventLoop>>> = Mutex::new(Vec::new());
static LINES: AtomicBool = AtomicBool::new(false);
static LISTENS: Once = Once::new();
