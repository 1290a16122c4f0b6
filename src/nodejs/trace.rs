//! The library's log lines, for `node:diagnostics_channel`.
//!
//! Lines are queued with the outcomes for an event loop, and the library does not wait for that loop.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Once, PoisonError, Weak};
use std::time::{SystemTime, UNIX_EPOCH};

use dlock_bindings::events::{self, Level, Listener};
use napi_derive::napi;

use crate::event_loop::{EventLoop, OutcomeQueue};
use crate::outcome::Line;

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
        let line = Line::from(line);
        // This must not block: a line is lost while the list is locked.
        let Ok(loops) = LOOPS.try_lock() else { return };
        loops
            .iter()
            .filter_map(Weak::upgrade)
            .for_each(|event_loop| event_loop.push_line(line.clone()));
    }
}

impl From<events::Line> for Line {
    fn from(line: events::Line) -> Line {
        let fields =
            line.fields.into_iter().map(|(name, value)| vec![name.to_owned(), value]).collect();
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let level = line.level.as_str().to_lowercase();
        Line { level, message: line.message, fields, time: since.as_secs_f64() * 1e3 }
    }
}

static LOOPS: Mutex<Vec<Weak<EventLoop>>> = Mutex::new(Vec::new());
static LINES: AtomicBool = AtomicBool::new(false);
static LISTENS: Once = Once::new();
