//! The library's events, for `node:diagnostics_channel`: log lines, and waits with the holders in their way.
//!
//! Events go among the outcomes for an event loop, and the library does not wait for that loop.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Once, PoisonError, Weak};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use dlock_bindings::events::{self, Level, Listener};
use napi_derive::napi;

use crate::event_loop::{CALLER, Caller, EventLoop, OutcomeQueue};
use crate::outcome::{Line, Outcome};

/// Sets the events that an event loop wants: waits, lines, and lines to print.
#[napi(catch_unwind)]
pub fn listen(queue: &OutcomeQueue, waits: bool, lines: bool, prints: bool) {
    let event_loop = queue.event_loop();
    let mut loops = LOOPS.lock().unwrap_or_else(PoisonError::into_inner);
    loops.retain(|other| other.event_loop.strong_count() > 0 && !other.is_of(&event_loop));
    if waits || lines || prints {
        loops.push(Subscriber { event_loop: Arc::downgrade(&event_loop), waits, lines, prints });
        LISTENS.call_once(|| events::listen(Channels));
    }
    WAITS.store(loops.iter().any(|each| each.waits), Ordering::Relaxed);
    LINES.store(loops.iter().any(|each| each.lines || each.prints), Ordering::Relaxed);
}

/// An event loop that listens. Each gets its own waits, and the lines of this process.
struct Subscriber {
    event_loop: Weak<EventLoop>,
    waits: bool,
    lines: bool,
    prints: bool,
}

impl Subscriber {
    fn is_of(&self, event_loop: &Arc<EventLoop>) -> bool {
        Weak::as_ptr(&self.event_loop) == Arc::as_ptr(event_loop)
    }
}

struct Channels;

impl Listener for Channels {
    type Waiter = Caller;

    fn wants(&self, level: Level) -> bool {
        level <= Level::DEBUG && LINES.load(Ordering::Relaxed)
    }

    fn wants_waits(&self) -> bool {
        WAITS.load(Ordering::Relaxed) || LINES.load(Ordering::Relaxed)
    }

    fn line(&self, line: events::Line) {
        let mut line = Line::from(line);
        // This must not block: a line is lost while the list is locked.
        let Ok(loops) = LOOPS.try_lock() else { return };
        let mut printed = false;
        for each in loops.iter() {
            let Some(event_loop) =
                each.event_loop.upgrade().filter(|event_loop| event_loop.is_open())
            else {
                continue;
            };
            line.prints = each.prints && !printed;
            printed |= line.prints;
            if each.lines || line.prints {
                event_loop.push_line(line.clone());
            }
        }
    }

    fn waiter(&self) -> Option<Caller> {
        CALLER.try_with(Caller::clone).ok()
    }

    fn wait_begins(&self, waiter: &Caller, waits_for: &str) {
        waiter.send(Outcome::WaitBegins(waits_for.to_owned()));
    }

    fn wait_ends(&self, waiter: Caller, after: Duration) {
        waiter.send(Outcome::WaitEnds(after));
    }
}

impl From<events::Line> for Line {
    fn from(line: events::Line) -> Line {
        let fields =
            line.fields.into_iter().map(|(name, value)| vec![name.to_owned(), value]).collect();
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let level = line.level.as_str().to_lowercase();
        let time = since.as_secs_f64() * 1e3;
        Line { level, message: line.message, fields, time, prints: false }
    }
}

static LOOPS: Mutex<Vec<Subscriber>> = Mutex::new(Vec::new());
static WAITS: AtomicBool = AtomicBool::new(false);
static LINES: AtomicBool = AtomicBool::new(false);
static LISTENS: Once = Once::new();
