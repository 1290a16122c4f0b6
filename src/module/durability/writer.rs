//! The record in the state file, and the thread that writes it.
//!
//! The server's main thread never touches the disk: it hands a record to that thread and goes on.
//! Where a grant must not be made before the record is written it waits, but not for long, and not
//! at all while the disk is known to be in trouble.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nix::sys::signal::{SigSet, Signal};

use dlock_core::{Ended, Instant, LeaseBound, Promise, Record};

use crate::durability::file::{StateFile, unwritable};
use crate::ffi::context::log;

/// The record of a node, and what has become of the last write.
pub struct RecordWriter {
    thread: Option<WriterThread>,
    record: Record,
    /// What is being written, and whether it says that the log is complete.
    in_flight: Option<(Promise, bool)>,
    /// Whether what has been written may say so.
    says_complete: bool,
    /// When the last write began.
    begun: Instant,
    /// Why the last write failed.
    failure: Option<String>,
}

impl RecordWriter {
    /// Without a file: whatever is promised is forgotten at the end of this life.
    pub fn without_file(node_id: u128) -> RecordWriter {
        RecordWriter {
            thread: None,
            record: Record {
                node_id,
                boot: 1,
                fence: dlock_core::Fence(0),
                unix: 0,
                bound: LeaseBound::default(),
                ended: None,
                log_is_complete: false,
            },
            in_flight: None,
            says_complete: false,
            begun: Instant(0),
            failure: None,
        }
    }

    /// Takes the file, and reads what it says of the last life.
    ///
    /// # Errors
    /// What is wrong with it, for the operator.
    pub fn open(&mut self, path: &Path) -> Result<Option<Record>, String> {
        let (file, before) = StateFile::open(path)?;
        if let Some(before) = before.clone() {
            let boot = before.boot.saturating_add(1);
            self.record = Record { boot, ..before };
        }
        self.thread = Some(WriterThread::start(file)?);
        Ok(before)
    }

    /// The first record of this life: one more start, and nothing else new. It keeps what the
    /// last life left behind, for nothing is granted before the data set is loaded.
    ///
    /// # Errors
    /// Why it cannot be written, for the operator.
    pub fn write_first(&mut self) -> Result<(), String> {
        let Some(thread) = &self.thread else { return Ok(()) };
        self.says_complete = self.record.log_is_complete;
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

    /// How many lives there have been, this one included.
    pub fn boot(&self) -> u64 {
        self.record.boot
    }

    /// Where the file is, if there is one.
    pub fn path(&self) -> Option<&Path> {
        self.thread.as_ref().map(|thread| &*thread.path)
    }

    /// The same in words, with the symbolic link that led there.
    pub fn described(&self) -> String {
        let Some(WriterThread { path, link, .. }) = &self.thread else {
            return "no state file".to_owned();
        };
        let link = link.as_ref().map(|link| format!(", by the link {}", link.display()));
        format!("state file {}{}", path.display(), link.unwrap_or_default())
    }

    /// The module is not loaded after all. When this returns, no thread of it runs any more: its code
    /// is about to go.
    pub fn let_go(&mut self) {
        self.thread = None;
    }

    /// Why the last write failed.
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Whether the file may say that the log is complete.
    pub fn says_complete(&self) -> bool {
        self.says_complete || self.in_flight.as_ref().is_some_and(|(_, complete)| *complete)
    }

    /// What it says of that with the next write; and that this life has not ended.
    pub fn set_log_is_complete(&mut self, complete: bool) {
        (self.record.log_is_complete, self.record.ended) = (complete, None);
    }

    /// Whether what the file said of the last life's log still holds.
    pub fn keep_log_complete(&mut self, complete: bool) {
        self.record.log_is_complete = complete;
    }

    /// Whether nothing is being written, and what failed was not just now.
    pub fn is_ready(&self, now: Instant) -> bool {
        self.in_flight.is_none() && (self.failure.is_none() || now.since(self.begun) >= RETRY)
    }

    /// Begins to write.
    pub fn write(&mut self, promise: Promise, now: Instant) {
        (self.record.fence, self.record.unix) = (promise.fence, promise.unix);
        self.record.bound = promise.longest();
        (self.in_flight, self.begun) = (Some((promise, self.record.log_is_complete)), now);
        if let Some(thread) = &self.thread {
            thread.hand_over(self.record.encode());
        }
    }

    /// What has been written since the last look.
    pub fn written(&mut self) -> Option<Promise> {
        self.wait(Duration::ZERO)
    }

    /// Writes, and waits until it is done. False: it could not be.
    pub fn write_now(&mut self, promise: Promise, now: Instant) -> bool {
        if self.failure.is_some() {
            return false;
        }
        // What is on its way was asked for earlier, and says less.
        let begun = std::time::Instant::now();
        self.wait(PATIENCE);
        if self.failure.is_some() {
            return false;
        }
        self.write(promise, now);
        // Not zero, which would not be waiting.
        let left = PATIENCE.saturating_sub(begun.elapsed()).max(Duration::from_millis(1));
        self.wait(left).is_some()
    }

    /// The last record of this life.
    pub fn end(&mut self, promise: Promise, ended: Option<Ended>, now: Instant) {
        self.wait(PATIENCE);
        self.record.ended = ended;
        self.write(promise, now);
        self.wait(PATIENCE);
    }

    /// Waits until what is on its way has been written.
    fn wait(&mut self, limit: Duration) -> Option<Promise> {
        self.in_flight.as_ref()?;
        let outcome = match &self.thread {
            Some(thread) => thread.outcome(limit),
            None => Some(Ok(())),
        };
        match outcome {
            Some(Ok(())) => {
                let (promise, complete) = self.in_flight.take()?;
                self.says_complete = complete;
                if self.failure.take().is_some() {
                    log(c"notice", "the state file can be written again");
                }
                return Some(promise);
            }
            Some(Err(why)) => {
                // It may have been written nevertheless.
                self.says_complete |= self.in_flight.take()?.1;
                self.fail(why);
            }
            None if !limit.is_zero() => self.fail("the disk does not answer".to_owned()),
            None => {}
        }
        None
    }

    /// Said once, and not at each of a thousand attempts.
    fn fail(&mut self, why: String) {
        if self.failure.is_none() {
            log(
                c"warning",
                &format!(
                    "the state file cannot be written: {why}. Grants go on for about a minute, \
                     then they are refused with NOTDURABLE until it can be written"
                ),
            );
        }
        self.failure = Some(why);
    }
}

/// After a failure the next attempt is made so much later, in µs.
const RETRY: u64 = 1_000_000;
/// How long a grant waits for the disk.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long a start waits for the disk without a word.
const SILENCE: Duration = Duration::from_secs(3);

/// The thread that writes, as the main thread sees it. It knows the file and nothing else of the module.
struct WriterThread {
    path: PathBuf,
    link: Option<PathBuf>,
    shared: Arc<Shared>,
    handle: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    task: Mutex<Task>,
    changed: Condvar,
}

/// What the two threads exchange: at most one record is on its way.
#[derive(Default)]
struct Task {
    record: Option<String>,
    outcome: Option<Result<(), String>>,
    /// There will be no other record.
    closed: bool,
}

impl WriterThread {
    fn start(file: StateFile) -> Result<WriterThread, String> {
        let (path, link) = (file.path().to_owned(), file.link().map(Path::to_owned));
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
        Ok(WriterThread { path, link, shared, handle: Some(handle) })
    }

    fn hand_over(&self, record: String) {
        *self.shared.lock() = Task { record: Some(record), ..Task::default() };
        self.shared.changed.notify_all();
    }

    /// What has become of the record; `None`: it is still on its way.
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
            // One that has panicked has ended, too.
            let _ = handle.join();
        }
    }
}

/// The server's watchdog wants to know what the main thread does, and tells it by this signal.
fn leave_the_watchdogs_signal() {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGALRM);
    // Without it a line of the watchdog's log would be about this thread.
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
