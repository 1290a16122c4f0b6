//! The library's events: log lines, and waits with the holders in their way.
//!
//! The library calls a listener in the runtime's thread, which must not block: neither may a listener.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

pub use tracing::Level;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{Interest, Subscriber};
use tracing::{Event, Metadata};

/// A listener for events.
pub trait Listener: Send + Sync + 'static {
    /// The recipient of a wait's events.
    type Waiter: Send + 'static;

    /// True if the listener wants lines of this level.
    fn wants(&self, level: Level) -> bool;

    /// True if the listener wants events of waits.
    fn wants_waits(&self) -> bool;

    /// Receives a log line.
    fn line(&self, line: Line);

    /// The recipient for a wait that begins now, in this thread.
    fn waiter(&self) -> Option<Self::Waiter>;

    /// Reports the begin of a wait.
    fn wait_begins(&self, waiter: &Self::Waiter, waits_for: &str);

    /// Reports the end of a wait, with its length.
    fn wait_ends(&self, waiter: Self::Waiter, after: Duration);
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

struct Subscribed<L: Listener> {
    listener: L,
    /// Waits under way, by the number of their span.
    waits: Mutex<BTreeMap<u64, Wait<L::Waiter>>>,
    last: AtomicU64,
}

struct Wait<W> {
    waiter: Option<W>,
    since: Instant,
    waits_for: String,
}

impl<L: Listener> Subscriber for Subscribed<L> {
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        // Listeners come and go.
        Interest::sometimes()
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        // Of the spans only waits matter: the caller sees the begin and end of the others.
        metadata.is_event() && self.listener.wants(*metadata.level())
            || metadata.is_span() && metadata.name() == "wait" && self.listener.wants_waits()
    }

    fn event(&self, event: &Event<'_>) {
        let mut line =
            Line { level: *event.metadata().level(), message: String::new(), fields: vec![] };
        event.record(&mut line);
        // A line inside of a wait says what the wait is for.
        if let Some(wait) = self.waits().get(&ENTERED.get()) {
            line.fields.push(("waits_for", wait.waits_for.clone()));
        }
        self.listener.line(line);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        let id = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let wait = Wait {
            waiter: self.listener.waiter(),
            since: Instant::now(),
            waits_for: String::new(),
        };
        self.waits().insert(id, wait);
        Id::from_u64(id)
    }

    fn record(&self, id: &Id, record: &Record<'_>) {
        let mut waits = self.waits();
        let Some(wait) = waits.get_mut(&id.into_u64()) else { return };
        record.record(&mut WaitsFor(&mut wait.waits_for));
        if let Some(waiter) = &wait.waiter {
            self.listener.wait_begins(waiter, &wait.waits_for);
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
        let ended = self.waits().remove(&id.into_u64());
        if let Some(Wait { waiter: Some(waiter), since, .. }) = ended {
            self.listener.wait_ends(waiter, since.elapsed());
        }
        true
    }
}

impl<L: Listener> Subscribed<L> {
    fn waits(&self) -> MutexGuard<'_, BTreeMap<u64, Wait<L::Waiter>>> {
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
