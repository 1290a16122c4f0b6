//! The library's log lines.
//!
//! The library calls a listener in the runtime's thread, so a listener must not block.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

pub use tracing::Level;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{Interest, Subscriber};
use tracing::{Event, Metadata};

/// A listener for log lines.
pub trait Listener: Send + Sync + 'static {
    /// True if the listener wants lines of this level.
    fn wants(&self, level: Level) -> bool;

    /// Receives a line.
    fn line(&self, line: Line);
}

/// A log line.
#[derive(Clone, Debug)]
pub struct Line {
    /// Its level.
    pub level: Level,
    /// Its message.
    pub message: String,
    /// Names and values.
    pub fields: Vec<(&'static str, String)>,
}

/// Makes this the listener of the process. Only the first call counts.
pub fn listen(listener: impl Listener) {
    let (waits, last) = (Mutex::default(), AtomicU64::new(0));
    let _ = tracing::subscriber::set_global_default(Subscribed { listener, waits, last });
}

struct Subscribed<L> {
    listener: L,
    /// The holders that each wait under way waits for, by the number of its span.
    waits: Mutex<BTreeMap<u64, String>>,
    last: AtomicU64,
}

impl<L: Listener> Subscriber for Subscribed<L> {
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        // The level that a listener wants can change.
        Interest::sometimes()
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        // Only the spans of waits are recorded, for the holders in a line.
        metadata.is_event() && self.listener.wants(*metadata.level())
            || metadata.is_span() && metadata.name() == "wait" && self.listener.wants(Level::DEBUG)
    }

    fn event(&self, event: &Event<'_>) {
        let mut line =
            Line { level: *event.metadata().level(), message: String::new(), fields: vec![] };
        event.record(&mut line);
        if let Some(waits_for) = self.waits().get(&ENTERED.get()) {
            line.fields.push(("waits_for", waits_for.clone()));
        }
        self.listener.line(line);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        let id = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        self.waits().insert(id, String::new());
        Id::from_u64(id)
    }

    fn record(&self, id: &Id, record: &Record<'_>) {
        if let Some(waits_for) = self.waits().get_mut(&id.into_u64()) {
            record.record(&mut WaitsFor(waits_for));
        }
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, id: &Id) {
        ENTERED.set(id.into_u64());
    }

    fn exit(&self, _: &Id) {
        ENTERED.set(NONE);
    }

    fn try_close(&self, id: Id) -> bool {
        self.waits().remove(&id.into_u64());
        true
    }
}

impl<L> Subscribed<L> {
    fn waits(&self) -> MutexGuard<'_, BTreeMap<u64, String>> {
        self.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            name => self.fields.push((name, format!("{value:?}"))),
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        self.fields.iter().try_for_each(|(name, value)| write!(f, " {name}={value}"))
    }
}

struct WaitsFor<'a>(&'a mut String);

impl Visit for WaitsFor<'_> {
    fn record_debug(&mut self, _: &Field, value: &dyn fmt::Debug) {
        let _ = write!(self.0, "{value:?}");
    }

    fn record_str(&mut self, _: &Field, value: &str) {
        self.0.push_str(value);
    }
}

thread_local! {
    /// The current span of this thread.
    static ENTERED: Cell<u64> = const { Cell::new(NONE) };
}

/// Spans are counted from 1.
const NONE: u64 = 0;
