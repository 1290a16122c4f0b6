//! The library's log lines, for Python's `logging`.
//!
//! The runtime's thread logs, and must not wait for the interpreter. So it puts lines into a channel, and a
//! thread of its own passes them on.

use std::convert::Infallible;
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, Once};
use std::thread;
use std::time::Duration;

use dlock_bindings::events::{self, Level, Line, Listener};
use nix::sys::signal::SigSet;
use pyo3::prelude::*;

/// Passes on lines of this level of `logging` and above.
#[pyfunction]
pub(crate) fn set_level(level: u32) {
    LEVEL.store(level, Ordering::Relaxed);
    LISTENS.call_once(|| events::listen(Log));
    start_in_this_process();
}

/// A thread does not outlive a fork, so each process starts its own.
fn start_in_this_process() {
    let Ok(mut channel) = CHANNEL.try_lock() else { return };
    if channel.as_ref().is_some_and(|(process, _)| *process == process::id()) {
        return;
    }
    let (sender, receiver) = sync_channel(MOST_LINES);
    if thread::Builder::new().name("dlock-log".to_owned()).spawn(|| pass_on(receiver)).is_ok() {
        *channel = Some((process::id(), sender));
    }
}

fn pass_on(lines: Receiver<Line>) {
    let _ = SigSet::all().thread_block();
    for line in lines {
        let logged = Python::try_attach(|py| -> PyResult<()> {
            let logger = py.import("logging")?.call_method1("getLogger", ("dlock",))?;
            let arguments = (number(line.level), "%s", line.to_string());
            logger.call_method1("log", arguments).map(drop)
        });
        // The interpreter ends.
        if logged.is_none() {
            return;
        }
    }
}

struct Log;

impl Listener for Log {
    /// A wait is reported as a line.
    type Waiter = Infallible;

    fn wants(&self, level: Level) -> bool {
        number(level) >= LEVEL.load(Ordering::Relaxed)
    }

    fn wants_waits(&self) -> bool {
        self.wants(Level::DEBUG)
    }

    fn line(&self, line: Line) {
        // This must not block: lines beyond the channel's limit are lost.
        if let Ok(channel) = CHANNEL.try_lock()
            && let Some((_, sender)) = &*channel
        {
            let _ = sender.try_send(line);
        }
    }

    fn waiter(&self) -> Option<Infallible> {
        None
    }

    fn wait_begins(&self, waiter: &Infallible, _: &str) {
        match *waiter {}
    }

    fn wait_ends(&self, waiter: Infallible, _: Duration) {
        match waiter {}
    }
}

/// The number of a level of `logging`, which has nothing below DEBUG.
fn number(level: Level) -> u32 {
    match level {
        Level::ERROR => 40,
        Level::WARN => 30,
        Level::INFO => 20,
        Level::DEBUG => 10,
        Level::TRACE => 5,
    }
}

static LEVEL: AtomicU32 = AtomicU32::new(30);
static LISTENS: Once = Once::new();
/// The channel's sender, and the process that has its receiver.
static CHANNEL: Mutex<Option<(u32, SyncSender<Line>)>> = Mutex::new(None);
/// Limit of lines in the channel.
const MOST_LINES: usize = 1024;
