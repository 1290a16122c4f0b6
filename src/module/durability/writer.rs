//! The record in the state file, and the thread that writes it.
//!
//! The server's main thread never touches the disk: it passes a record to that thread and continues. If a grant
//! needs the record first, the main thread waits, with a limit, and not at all after a recent failure.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::sys::signal::{SigSet, Signal};

use dlock_core::{Ended, Instant, Millis, Promise, Record};

use crate::durability::file::{StateFile, unwritable};
use crate::ffi::context::log;

/// The record of a node, and the outcome of the last write.
pub struct RecordWriter {
    thread: Option<WriterThread>,
    record: Record,
    /// The promise that is being written.
    in_flight: Option<Promise>,
    /// Start of the last write.
    begun: Instant,
    /// The reason of the last failure.
    failure: Option<String>,
}

impl RecordWriter {
    /// A writer without a file: the promise is lost when the process ends.
    pub fn without_file(node_id: u128) -> RecordWriter {
        RecordWriter {
            thread: None,
            record: Record {
                node_id,
                boot: 1,
                fence: dlock_core::Fence(0),
                unix: 0,
                bound: Millis(0),
                ended: None,
            },
            in_flight: None,
            begun: Instant(0),
            failure: None,
        }
    }

    /// Locks the file, and reads the last process's record.
    ///
    /// # Errors
    /// Fails with the problem, for the operator.
    pub fn open(&mut self, path: &Path) -> Result<Option<Record>, String> {
        let (file, before) = StateFile::open(path)?;
        if let Some(before) = before.clone() {
            let boot = before.boot.saturating_add(1);
            self.record = Record { boot, ..before };
        }
        self.thread = Some(WriterThread::start(file)?);
        Ok(before)
    }

    /// Sets the promise of this process's first record, if there was no file.
    pub fn begin_with(&mut self, promise: Promise) {
        (self.record.fence, self.record.bound) = (promise.fence, promise.bound);
    }

    /// Writes this process's first record: one more start, and nothing else new. It keeps the last process's
    /// record, because the node grants nothing before the data set is loaded.
    ///
    /// # Errors
    /// Fails with the reason, for the operator.
    pub fn write_first(&mut self) -> Result<(), String> {
        let Some(thread) = &self.thread else { return Ok(()) };
        thread.hand_over(self.record.encode());
        let outcome = thread.outcome(SILENCE).or_else(|| {
            let path = thread.path.display();
            log(c"warning", &format!("waiting for the disk of the state file {path}"));
            thread.outcome(Duration::MAX)
        });
        let Some(Err(why)) = outcome else { return Ok(()) };
        let why = unwritable(&thread.path, &why);
        self.let_go();
        Err(why)
    }

    pub fn node_id(&self) -> u128 {
        self.record.node_id
    }

    /// The number of starts, this one included.
    pub fn boot(&self) -> u64 {
        self.record.boot
    }

    /// The file's path, if there is one.
    pub fn path(&self) -> Option<&Path> {
        self.thread.as_ref().map(|thread| &*thread.path)
    }

    /// Ends the writer's thread if loading the module fails: its code is about to be unmapped.
    pub fn let_go(&mut self) {
        self.thread = None;
    }

    /// The reason of the last failure.
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// True if no write is under way, and the last failure is not recent.
    pub fn is_ready(&self, now: Instant) -> bool {
        self.in_flight.is_none() && (self.failure.is_none() || now.since(self.begun) >= RETRY)
    }

    /// Begins a write. `ended`: the leases held at a clean shutdown, if this is one.
    pub fn write(&mut self, promise: Promise, ended: Option<Ended>, now: Instant) {
        (self.record.fence, self.record.unix) = (promise.fence, promise.unix);
        (self.record.bound, self.record.ended) = (promise.longest(), ended);
        (self.in_flight, self.begun) = (Some(promise), now);
        if let Some(thread) = &self.thread {
            thread.hand_over(self.record.encode());
        }
    }

    /// The promise written since the last call.
    pub fn written(&mut self) -> Option<Promise> {
        self.wait(Duration::ZERO)
    }

    /// Writes, and waits for the disk. False: this write failed, or the one before did.
    pub fn write_now(&mut self, promise: Promise, now: Instant) -> bool {
        if self.failure.is_some() {
            return false;
        }
        // The write under way is older, and covers less.
        let begun = std::time::Instant::now();
        self.wait(PATIENCE);
        if self.in_flight.is_some() || self.failure.is_some() {
            return false;
        }
        self.write(promise, None, now);
        // The time is at least a millisecond: zero would not wait.
        let left = PATIENCE.saturating_sub(begun.elapsed()).max(Duration::from_millis(1));
        self.wait(left).is_some()
    }

    /// Writes this process's last record.
    pub fn end(&mut self, promise: Promise, ended: Option<Ended>, now: Instant) {
        self.wait(PATIENCE);
        self.write(promise, ended, now);
        self.wait(PATIENCE);
    }

    /// Waits for the write under way.
    fn wait(&mut self, limit: Duration) -> Option<Promise> {
        self.in_flight.as_ref()?;
        let outcome = match &self.thread {
            Some(thread) => thread.outcome(limit),
            None => Some(Ok(())),
        };
        match outcome {
            Some(Ok(())) => {
                let promise = self.in_flight.take()?;
                if self.failure.take().is_some() {
                    log(c"notice", "the state file can be written again");
                }
                return Some(promise);
            }
            Some(Err(why)) => {
                // The record may have been written nevertheless.
                self.in_flight = None;
                self.fail(why);
            }
            None if !limit.is_zero() => self.fail("the disk does not answer".to_owned()),
            None => {}
        }
        None
    }

    /// Logs the first failure in a row only.
    fn fail(&mut self, why: String) {
        if self.failure.is_none() {
            log(
                c"warning",
                &format!(
                    "the state file cannot be written: {why}. Grants continue for about a \
                     minute, and are refused with NOTDURABLE after that, until it can be written"
                ),
            );
        }
        self.failure = Some(why);
    }
}

/// The pause after a failure before the next attempt, in µs.
const RETRY: u64 = 1_000_000;
/// The longest time that a grant waits for the disk.
const PATIENCE: Duration = Duration::from_secs(1);
/// The time at start after which waiting for the disk is logged.
const SILENCE: Duration = Duration::from_secs(3);

/// The main thread's side of the thread that writes. That thread uses the file and nothing else of the module.
struct WriterThread {
    path: PathBuf,
    shared: Arc<Shared>,
    handle: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    task: Mutex<Task>,
    changed: Condvar,
}

/// The exchange of the two threads: at most one record is under way.
#[derive(Default)]
struct Task {
    record: Option<String>,
    outcome: Option<Result<(), String>>,
    /// True if there will be no other record.
    closed: bool,
}

impl WriterThread {
    fn start(file: StateFile) -> Result<WriterThread, String> {
        let path = file.path().to_owned();
        let shared = Arc::new(Shared::default());
        let own = Arc::clone(&shared);
        let started = thread::Builder::new().name("dlock-state".to_owned()).spawn(move || {
            leave_the_watchdogs_signal();
            while let Some(record) = own.next_record() {
                let outcome = file.write(&record);
                own.lock().outcome = Some(outcome);
                own.changed.notify_all();
            }
        });
        let handle = started.map_err(|error| format!("cannot start a thread: {error}"))?;
        Ok(WriterThread { path, shared, handle: Some(handle) })
    }

    fn hand_over(&self, record: String) {
        *self.shared.lock() = Task { record: Some(record), ..Task::default() };
        self.shared.changed.notify_all();
    }

    /// The outcome of the write; `None`: it is still under way.
    fn outcome(&self, limit: Duration) -> Option<Result<(), String>> {
        let task = self.shared.lock();
        if limit.is_zero() {
            return { task }.outcome.take();
        }
        let wait =
            self.shared.changed.wait_timeout_while(task, limit, |task| task.outcome.is_none());
        wait.unwrap_or_else(PoisonError::into_inner).0.outcome.take()
    }
}

impl Drop for WriterThread {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.changed.notify_all();
        if let Some(handle) = self.handle.take() {
            // A thread that has panicked has ended, too.
            let _ = handle.join();
        }
    }
}

/// Blocks the watchdog's signal, with which the server asks the main thread for its state.
fn leave_the_watchdogs_signal() {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGALRM);
    // Otherwise a line of the watchdog's log would be about this thread.
    let _ = signals.thread_block();
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Task> {
        self.task.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next_record(&self) -> Option<String> {
        let mut task = self.lock();
        loop {
            if task.closed || task.record.is_some() {
                return task.record.take();
            }
            task = self.changed.wait(task).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
