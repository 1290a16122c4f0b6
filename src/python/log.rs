//! What the library tells, for Python's `logging`.
//!
//! Whatever happens is told in the thread of the runtime, which must not wait for the interpreter. So it is
//! put into a channel, and a thread of its own passes it on.

use std::fmt::{self, Write};
use std::process;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, Once};
use std::thread;

use nix::sys::signal::SigSet;
use pyo3::prelude::*;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{Interest, Subscriber};
use tracing::{Event, Level, Metadata};

/// Passes on what is at least as important as this level of `logging`.
#[pyfunction]
pub(crate) fn set_level(level: u32) {
    LEVEL.store(level, Ordering::Relaxed);
    SUBSCRIBED.call_once(|| {
        // Nobody else sets it: each extension module has its own copy of `tracing`.
        let _ = tracing::subscriber::set_global_default(Told);
    });
    start_in_this_process();
}

/// A thread does not outlive a fork, so each process starts its own.
fn start_in_this_process() {
    let Ok(mut told) = TOLD.try_lock() else { return };
    if told.as_ref().is_some_and(|(process, _)| *process == process::id()) {
        return;
    }
    let (sender, receiver) = sync_channel(MOST_TOLD);
    if thread::Builder::new().name("dlock-log".to_owned()).spawn(|| pass_on(receiver)).is_ok() {
        *told = Some((process::id(), sender));
    }
}

fn pass_on(told: Receiver<Line>) {
    let _ = SigSet::all().thread_block();
    for (level, text) in told {
        let logged = Python::try_attach(|py| -> PyResult<()> {
            let logger = py.import("logging")?.call_method1("getLogger", ("dlock",))?;
            logger.call_method1("log", (level, "%s", text)).map(drop)
        });
        // The interpreter ends.
        if logged.is_none() {
            return;
        }
    }
}

/// A level, and what is told.
type Line = (u32, String);

struct Told;

impl Subscriber for Told {
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        Interest::sometimes()
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && number(metadata.level()) >= LEVEL.load(Ordering::Relaxed)
    }

    fn event(&self, event: &Event<'_>) {
        let mut text = Text::default();
        event.record(&mut text);
        // Nobody waits here: what finds no room is not told.
        if let Ok(told) = TOLD.try_lock()
            && let Some((_, told)) = &*told
        {
            let _ = told.try_send((number(event.metadata().level()), text.whole()));
        }
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(SPANS.fetch_add(1, Ordering::Relaxed))
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// The message, and the other fields behind it.
#[derive(Default)]
struct Text {
    message: String,
    fields: String,
}

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }
}

impl Text {
    fn whole(mut self) -> String {
        self.message.push_str(&self.fields);
        self.message
    }
}

/// As a level of `logging`, where there is nothing below DEBUG.
fn number(level: &Level) -> u32 {
    match *level {
        Level::ERROR => 40,
        Level::WARN => 30,
        Level::INFO => 20,
        Level::DEBUG => 10,
        Level::TRACE => 5,
    }
}

static LEVEL: AtomicU32 = AtomicU32::new(30);
static SUBSCRIBED: Once = Once::new();
static SPANS: AtomicU64 = AtomicU64::new(1);
/// The channel, and the process that has its other end.
static TOLD: Mutex<Option<(u32, SyncSender<Line>)>> = Mutex::new(None);
/// How much can wait to be passed on.
const MOST_TOLD: usize = 1024;
