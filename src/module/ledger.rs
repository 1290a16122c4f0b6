//! What the node has promised, and the thread that writes it down.
//!
//! The server's main thread never touches the disk: it hands a record to the writer and goes on.
//! Where a grant must not be made before the record is written it waits, but not for long, and not
//! at all while the disk is known to be in trouble.

use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use dlock_core::{Bounds, Ended, Instant, Promise, Record};

use crate::ffi::context::log;
use crate::state_file::{StateFile, unwritable};

/// The records of a node, and who writes them.
pub struct Ledger {
    writer: Option<Writer>,
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

impl Ledger {
    /// Without a file: whatever is promised is forgotten at the end of this life.
    pub fn nowhere(node_id: u128) -> Ledger {
        Ledger {
            writer: None,
            record: Record {
                node_id,
                boot: 1,
                fence: dlock_core::Fence(0),
                unix: 0,
                bounds: Bounds::default(),
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
        self.writer = Some(Writer::start(file)?);
        Ok(before)
    }

    /// The first record of this life: one more start, and nothing else new. It keeps what the
    /// last life left behind, for nothing is granted before the data set is loaded.
    ///
    /// # Errors
    /// Why it cannot be written, for the operator.
    pub fn write_first(&mut self) -> Result<(), String> {
        let Some(writer) = &self.writer else { return Ok(()) };
        self.says_complete = self.record.log_is_complete;
        writer.hand_over(self.record.encode());
        let Some(Err(why)) = writer.outcome(Duration::MAX) else { return Ok(()) };
        let why = unwritable(&writer.path, &why);
        // The module is not loaded: let the file go.
        self.writer = None;
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
        self.writer.as_ref().map(|writer| &*writer.path)
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
        let Promise { fence, unix, bounds } = promise.clone();
        (self.record.fence, self.record.unix, self.record.bounds) = (fence, unix, bounds);
        (self.in_flight, self.begun) = (Some((promise, self.record.log_is_complete)), now);
        if let Some(writer) = &self.writer {
            writer.hand_over(self.record.encode());
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

    /// The last words of this life.
    pub fn end(&mut self, promise: Promise, ended: Option<Ended>, now: Instant) {
        self.wait(PATIENCE);
        self.record.ended = ended;
        self.write(promise, now);
        self.wait(PATIENCE);
    }

    /// Waits until what is on its way has been written.
    fn wait(&mut self, limit: Duration) -> Option<Promise> {
        self.in_flight.as_ref()?;
        let outcome = match &self.writer {
            Some(writer) => writer.outcome(limit),
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

/// The thread that writes. It knows the file and nothing else of the module.
struct Writer {
    path: std::path::PathBuf,
    desk: Arc<Desk>,
}

#[derive(Default)]
struct Desk {
    papers: Mutex<Papers>,
    changed: Condvar,
}

/// At most one record is on its way.
#[derive(Default)]
struct Papers {
    record: Option<String>,
    outcome: Option<Result<(), String>>,
    /// Nobody will bring another one.
    closed: bool,
}

impl Writer {
    fn start(file: StateFile) -> Result<Writer, String> {
        let path = file.path().to_owned();
        let desk = Arc::new(Desk::default());
        let own = Arc::clone(&desk);
        let started = thread::Builder::new().name("dlock-state".to_owned()).spawn(move || {
            while let Some(record) = own.next_record() {
                let outcome = file.write(&record);
                own.lock().outcome = Some(outcome);
                own.changed.notify_all();
            }
        });
        started.map_err(|error| format!("cannot start a thread: {error}"))?;
        Ok(Writer { path, desk })
    }

    fn hand_over(&self, record: String) {
        *self.desk.lock() = Papers { record: Some(record), ..Papers::default() };
        self.desk.changed.notify_all();
    }

    /// What has become of the record; `None`: it is still on its way.
    fn outcome(&self, limit: Duration) -> Option<Result<(), String>> {
        let papers = self.desk.lock();
        if limit.is_zero() {
            return { papers }.outcome.take();
        }
        let wait = self.desk.changed.wait_timeout_while(papers, limit, |p| p.outcome.is_none());
        wait.unwrap_or_else(PoisonError::into_inner).0.outcome.take()
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.desk.lock().closed = true;
        self.desk.changed.notify_all();
    }
}

impl Desk {
    fn lock(&self) -> MutexGuard<'_, Papers> {
        self.papers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next_record(&self) -> Option<String> {
        let mut papers = self.lock();
        loop {
            if papers.closed || papers.record.is_some() {
                return papers.record.take();
            }
            papers = self.changed.wait(papers).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
