//! One process lifetime of a server: it locks the state file, begins with its data set, keeps the file up to
//! date, and leaves its last record there.

use std::path::Path;

use dlock_core::{Ended, Fence, Instant, Key, Millis, Promise, Record, Start};

use super::LastLife;
use crate::ffi::context::{Ctx, log, now};
use crate::state::State;

impl State {
    /// Locks the state file, while the module is being loaded.
    ///
    /// # Errors
    /// Fails with the problem of the file, for the operator.
    pub fn open_state_file(&mut self) -> Result<(), String> {
        let path = self.store.durability.state_file.clone();
        let unix = self.time().unix;
        let before = if path.is_empty() {
            None
        } else {
            self.store.durability.writer.open(Path::new(&path))?
        };
        if let Some(before) = &before {
            let Record { fence, unix, bound, .. } = *before;
            self.node.durable.resume(&Promise { fence, unix, bound, ..Promise::default() }, now());
        } else if let Some(lost) = self.node.settings.lost(unix) {
            self.node.durable.resume(&lost, now());
            self.store.durability.writer.begin_with(lost);
        }
        self.store.durability.writer.write_first()?;
        self.store.durability.last_life = Some(LastLife(before));
        Ok(())
    }

    /// Begins, if the server is not loading. A server without a data set loads none, and sends no event.
    pub fn begin_if_loaded(&mut self, ctx: Ctx<'_>) {
        if !self.store.durability.have_begun() && !self.store.arriving.load.is_loading() {
            self.begin(ctx);
        }
    }

    /// Follows at first: the module has been loaded, but not the data set.
    pub fn started(&mut self, hears_of_keys: bool) {
        self.node.is_deaf = !hears_of_keys;
        let now = now();
        self.node.follow(&mut self.store.blocked, now);
        self.store.alarm.set(now, now);
    }

    /// Begins to serve with the loaded data set.
    pub fn begin(&mut self, ctx: Ctx<'_>) {
        let Some(LastLife(before)) = self.store.durability.last_life.take() else { return };
        let time = self.time();
        let leads = !ctx.flags().is_replica();
        let held = self.store.index.last_end().map_or(Millis(0), |end| end.left(time.now));
        let back = self.all_leases();
        let start = Start { before: before.as_ref(), back, held };
        self.node.begin(&start, leads, time);
        let writer = &self.store.durability.writer;
        let (node, boot) = (writer.node_id(), writer.boot());
        let file = writer.path().map(|path| format!("state file {}", path.display()));
        let file = file.as_deref().unwrap_or("no state file");
        log(c"notice", &format!("node {node:032x}, boot {boot}, {file}"));
        self.promise_now();
        self.log_quarantine();
    }

    /// Writes the state file when necessary; runs about ten times a second.
    pub fn keep_state_file(&mut self, now: Instant) {
        if let Some(promise) = self.store.durability.writer.written() {
            self.node.promised(promise);
            self.store.durability.owes_promise = true;
        }
        let time = self.time();
        self.refusing(time);
        if !self.store.durability.have_begun() || !self.store.durability.writer.is_ready(now) {
            return;
        }
        let failing = self.store.durability.writer.failure().is_some();
        if failing || self.node.should_promise(time) {
            let promise = self.next_promise();
            self.store.durability.writer.write(promise, None, now);
        }
    }

    /// Writes the last record, when the server shuts down.
    pub fn close_state_file(&mut self) {
        let time = self.time();
        self.finish_taken();
        if !self.store.durability.have_begun() {
            // The last process's record is still true.
            return;
        }
        // A replica, or a node in quarantine, may lack leases.
        let unsure = self.node.is_following() || self.node.is_in_quarantine(time.now);
        let (promise, ended) = if unsure {
            (self.next_promise(), None)
        } else {
            let promise = self.node.last_promise(self.store.index.last_end(), time.now);
            (promise, Some(self.all_leases()))
        };
        self.store.durability.writer.end(promise, ended, time.now);
    }

    /// Covers a lease that is about to arrive in the state file. RESTORE, and so MIGRATE of a key, is limited
    /// to the longest new lease; a lease that arrives with its slot is never too long.
    ///
    /// # Errors
    /// Fails with the reason why the lease cannot be covered.
    pub fn cover(&mut self, key: Key<'_>, fence: Fence, ttl: Millis) -> Result<(), &'static str> {
        let time = self.time();
        let is_restored = !self.store.arriving.slots.imports(key.name);
        let needed = self.node.needs((fence, ttl), is_restored, time);
        let needed = needed.map_err(|_| "its lease is longer than dlock.max-ttl allows here")?;
        match needed.is_none_or(|promise| self.write_now(promise)) {
            true => Ok(()),
            false => Err("the state file cannot be written, and does not cover what is stored"),
        }
    }

    /// Covers everything that has arrived from other nodes. False: the write failed.
    pub fn cover_all(&mut self) -> bool {
        self.node.durable.is_covered() || {
            let promise = self.next_promise();
            self.write_now(promise)
        }
    }

    pub fn log_quarantine(&self) {
        if let Some(quarantine) = self.node.durable.in_quarantine()
            && !self.node.is_following()
        {
            let (Millis(left), cause) = (quarantine.left(now()), quarantine.cause);
            log(
                c"notice",
                &format!(
                    "quarantine: no lock is granted for {left} ms, because {cause}. CONFIG SET \
                     dlock.quarantine off ends it"
                ),
            );
        }
    }

    /// Writes the state file, and waits for the disk.
    pub fn promise_now(&mut self) {
        let promise = self.next_promise();
        self.write_now(promise);
    }

    fn write_now(&mut self, promise: Promise) -> bool {
        let written = self.store.durability.write_now(&promise);
        if written {
            self.node.promised(promise);
        }
        written
    }

    fn next_promise(&mut self) -> Promise {
        let time = self.time();
        self.node.next_promise(self.store.index.last_end(), time)
    }

    /// All held leases. Evicted ones count, and are not restored.
    fn all_leases(&self) -> Ended {
        let mut all = Ended::default();
        self.store.index.each(|key, mode, grant| all.add(key, mode, grant));
        if self.node.evicted_left(now()) > Millis(0) {
            all.add_evicted();
        }
        all
    }
}
