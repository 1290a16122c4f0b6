//! The library's events, for `node:diagnostics_channel`: log lines, and waits with the holders in their way.
//!
//! Events go among the outcomes for an event loop, and the library does not wait for that loop.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Once, PoisonError, Weak};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use dlock_bindings::tell::{self, Level, Listener};
use napi_derive::napi;

use crate::outcome::{Line, Outcome};
use crate::post::{ASKED, Asked, Letters, Post};

/// Sets the events that an event loop wants: waits, lines, and lines to print.
#[napi(catch_unwind)]
pub fn listen(post: &Post, waits: bool, lines: bool, prints: bool) {
    let letters = post.letters();
    let mut loops = LOOPS.lock().unwrap_or_else(PoisonError::into_inner);
    loops.retain(|other| other.letters.strong_count() > 0 && !other.is_of(&letters));
    if waits || lines || prints {
        loops.push(Loop { letters: Arc::downgrade(&letters), waits, lines, prints });
        LISTENS.call_once(|| tell::listen(Channels));
    }
    WAITS.store(loops.iter().any(|each| each.waits), Ordering::Relaxed);
    LINES.store(loops.iter().any(|each| each.lines || each.prints), Ordering::Relaxed);
}

/// An event loop that listens. Each gets its own waits, and the lines of this process.
struct Loop {
    letters: Weak<Letters>,
    waits: bool,
    lines: bool,
    prints: bool,
}

impl Loop {
    fn is_of(&self, letters: &Arc<Letters>) -> bool {
        Weak::as_ptr(&self.letters) == Arc::as_ptr(letters)
    }
}

struct Channels;

impl Listener for Channels {
    type Waiter = Asked;

    fn hears(&self, level: Level) -> bool {
        level <= Level::DEBUG && LINES.load(Ordering::Relaxed)
    }

    fn hears_waits(&self) -> bool {
        WAITS.load(Ordering::Relaxed) || LINES.load(Ordering::Relaxed)
    }

    fn line(&self, line: tell::Line) {
        let mut line = Line::from(line);
        // This must not block: a line is lost while the list is locked.
        let Ok(loops) = LOOPS.try_lock() else { return };
        let mut printed = false;
        for each in loops.iter() {
            let Some(letters) = each.letters.upgrade().filter(|letters| letters.is_open()) else {
                continue;
            };
            line.prints = each.prints && !printed;
            printed |= line.prints;
            if each.lines || line.prints {
                letters.tell_line(line.clone());
            }
        }
    }

    fn waiter(&self) -> Option<Asked> {
        ASKED.try_with(Asked::clone).ok()
    }

    fn waits(&self, waiter: &Asked, waits_for: &str) {
        waiter.hear(Outcome::Waits(waits_for.to_owned()));
    }

    fn waited(&self, waiter: Asked, after: Duration) {
        waiter.hear(Outcome::Waited(after));
    }
}

impl From<tell::Line> for Line {
    fn from(line: tell::Line) -> Line {
        let fields =
            line.fields.into_iter().map(|(name, value)| vec![name.to_owned(), value]).collect();
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let level = line.level.as_str().to_lowercase();
        let time = since.as_secs_f64() * 1e3;
        Line { level, message: line.message, fields, time, prints: false }
    }
}

static LOOPS: Mutex<Vec<Loop>> = Mutex::new(Vec::new());
static WAITS: AtomicBool = AtomicBool::new(false);
static LINES: AtomicBool = AtomicBool::new(false);
static LISTENS: Once = Once::new();
