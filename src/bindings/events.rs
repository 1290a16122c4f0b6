//! The library's log lines.
//!
//! The library calls a listener in the runtime's thread, so a listener must not block.

use std::fmt;

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
    let _ = tracing::subscriber::set_global_default(Subscribed(listener));
}

/// Passes on events; spans are not recorded.
struct Subscribed<L>(L);

impl<L: Listener> Subscriber for Subscribed<L> {
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        // The level that a listener wants can change.
        Interest::sometimes()
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && self.0.wants(*metadata.level())
    }

    fn event(&self, event: &Event<'_>) {
        let mut line =
            Line { level: *event.metadata().level(), message: String::new(), fields: vec![] };
        event.record(&mut line);
        self.0.line(line);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
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
