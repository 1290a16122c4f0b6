//! A test that waits for too long: the state of its servers, its networks and the client library's tasks,
//! printed before the test fails.
//!
//! All that belongs to a test has the name of its thread. The library's threads have it, too: see
//! [`run`](crate::library::run).

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError, Weak};
use std::thread;

use tracing::Level;
use tracing_subscriber::fmt::format::FmtSpan;

/// Describes the state of a part of a test.
pub(crate) type Tells = dyn Fn() -> String + Send + Sync;

/// Notes a part of this test. It can describe its state for as long as its owner keeps the returned value.
pub(crate) fn part(tells: impl Fn() -> String + Send + Sync + 'static) -> Arc<Tells> {
    let tells: Arc<Tells> = Arc::new(tells);
    let mut all = lock(&PARTS);
    all.retain(|(_, part)| part.strong_count() > 0);
    all.push((test(), Arc::downgrade(&tells)));
    tells
}

/// Prints the state of all parts of this test, and the last events of the library in it. Its tasks wait in
/// spans that were opened and not closed.
pub fn tell() {
    let test = test();
    let told = lock(&EVENTS).remove(&test).unwrap_or_default();
    eprintln!("--- {test}: the last {} events of the library:", told.len());
    eprint!("{}", told.iter().map(String::as_str).collect::<String>());
    // A part may take a while to describe its state, and others may begin.
    let parts = lock(&PARTS).clone();
    for part in parts.iter().filter(|(of, _)| *of == test).filter_map(|(_, part)| part.upgrade()) {
        eprintln!("--- {}", part().trim_end());
    }
    eprintln!("---");
}

/// Records the library's events from now on.
pub(crate) fn listen() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let listener = tracing_subscriber::fmt()
            .with_max_level(Level::TRACE)
            .with_span_events(FmtSpan::NEW | FmtSpan::CLOSE)
            .with_ansi(false)
            .with_writer(|| Line)
            .finish();
        // A test with a listener of its own has been first.
        tracing::subscriber::set_global_default(listener).ok();
    });
}

/// Forgets the events of this test, which has passed.
pub(crate) fn forget() {
    lock(&EVENTS).remove(&test());
}

/// The name of this test, and of its threads.
pub fn test() -> String {
    thread::current().name().unwrap_or("a thread without a name").to_owned()
}

/// Writes one event of the library.
struct Line;

impl Write for Line {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut events = lock(&EVENTS);
        let own = events.entry(test()).or_default();
        if own.len() == MOST {
            own.pop_front();
        }
        own.push_back(String::from_utf8_lossy(line).into_owned());
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn lock<T>(all: &Mutex<T>) -> MutexGuard<'_, T> {
    all.lock().unwrap_or_else(PoisonError::into_inner)
}

static PARTS: Mutex<Vec<(String, Weak<Tells>)>> = Mutex::new(Vec::new());
static EVENTS: Mutex<BTreeMap<String, VecDeque<String>>> = Mutex::new(BTreeMap::new());
/// The most events of a test that are kept.
const MOST: usize = 300;
