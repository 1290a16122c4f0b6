//! One life of a server: it locks the state file, begins with its data set, keeps the file up to date, and
//! leaves its last record there.

use std::path::Path;

use dlock_core::{Ended, Fence, Instant, Key, Millis, Promise, Record, Start};

use super::{Durability, LastLife};
use crate::ffi::context::{Ctx, log, now};
use crate::state::State;

impl State {
    /// Locks the state file, while the module is being loaded.
    ///
    /// # Errors
    /// Fails with the problem of the file, for the operator.
    pub fn open_state_file(&mut self, ctx: Ctx<'_>) -> Result<(), String> {
        let path = self.store.durability.state_file.clone();
        let before = if path.is_empty() {
            None
        } else {
            self.store.durability.writer.open(Path::new(&path))?
        };
        if let Some(before) = &before {
            let Record { fence, unix, bound, .. } = *before;
            self.node.durable.resume(&Promise { fence, unix, bound, ..Promise::default() }, now());
            // Nothing is granted before the data set is loaded, so what the last life left behind
            // stays true.
            self.store.durability.writer.keep_complete_log(ctx.complete_log());
        } else if let Some(lost) = self.node.settings.terms().lost(self.time().unix) {
            self.node.durable.resume(&lost, now());
            self.store.durability.writer.begin_with(lost);
        }
        self.store.durability.writer.write_first()?;
        // A server that runs already may be about to begin its log. And a log that is not complete now may be cut
        // while it is loaded, though its settings are changed meanwhile.
        self.store.durability.complete_log = ctx.complete_log().filter(|_| !ctx.had_connections());
        self.store.durability.last_life = Some(LastLife(before));
        Ok(())
    }

    /// Begins, if the server is not loading. A server with no data set loads none, and reports nothing.
    pub fn begin_if_loaded(&mut self, ctx: Ctx<'_>) {
        if !self.store.durability.have_begun() && !self.store.arriving.load.is_loading() {
            self.begin(ctx);
        }
    }

    /// Follows at first: the module has been loaded, but not the data set.
    pub fn started(&mut self, hears_of_keys: bool) {
        self.store.moved_keys.install(hears_of_keys);
        self.node.is_deaf = !hears_of_keys;
        let now = now();
        self.node.follow(&mut self.store.blocked, now);
        self.store.alarm.set(now, now);
    }

    /// Begins this life with the loaded data set.
    pub fn begin(&mut self, ctx: Ctx<'_>) {
        let Some(LastLife(before)) = self.store.durability.last_life.take() else { return };
        let time = self.time();
        let leads = !ctx.flags().is_replica();
        let Durability { complete_log, loads_log, .. } = &mut self.store.durability;
        *complete_log = complete_log.filter(|log| leads && ctx.complete_log() == Some(*log));
        // With no log there is nothing to be complete.
        let complete_log = complete_log.filter(|_| *loads_log);
        let held = self.store.index.last_end().map_or(Millis(0), |end| end.left(time.now));
        let back = self.all_leases();
        let start = Start { before: before.as_ref(), complete_log, back, held };
        self.node.begin(&start, leads, time);
        let writer = &self.store.durability.writer;
        let (node, boot, file) = (writer.node_id(), writer.boot(), writer.described());
        log(c"notice", &format!("node {node:032x}, boot {boot}, {file}"));
        self.promise_now();
        self.log_quarantine();
    }

    /// Writes the state file when necessary; runs about ten times a second.
    pub fn keep_state_file(&mut self, now: Instant) {
        if let Some(promise) = self.store.durability.writer.written() {
            self.node.promised(promise);
            self.store.durability.tell();
            self.look_for_doubt();
        }
        self.remind(now);
        let time = self.time();
        self.refusing(time);
        if !self.store.durability.have_begun() || !self.store.durability.writer.is_ready(now) {
            return;
        }
        let failing = self.store.durability.writer.failure().is_some();
        let untold =
            self.may_claim_log(now).is_some() != self.store.durability.writer.says_complete();
        if failing || untold || self.node.should_promise(time) {
            let promise = self.next_promise();
            self.store.durability.writer.write(promise, now);
        }
    }

    /// Repeats the promise from time to time: see
    /// [`Durability::tell_again`](super::Durability::tell_again).
    fn remind(&mut self, now: Instant) {
        let (fence, bound) = (self.node.durable.fence(), self.node.durable.bound());
        self.store.durability.tell_again(fence, bound, now);
    }

    /// Writes the last record, when the server shuts down.
    pub fn close_state_file(&mut self) {
        let time = self.time();
        self.finish_taken();
        if !self.store.durability.have_begun() {
            // The last life's record is still true.
            return;
        }
        // A replica, or a node in quarantine, does not know all leases.
        let unsure = self.node.is_following() || self.node.is_in_quarantine(time.now);
        let (promise, ended) = if unsure {
            (self.next_promise(), None)
        } else {
            let promise = self.node.last_promise(self.store.index.last_end(), time.now);
            (promise, Some(self.all_leases()))
        };
        self.store.durability.writer.end(promise, ended, time.now);
    }

    /// Notes that the log may be incomplete from now on. The state file has to say so before anything can
    /// rely on it; on a full disk it still can.
    pub fn note_incomplete_log(&mut self) {
        let was_kept = self.store.durability.complete_log.take().is_some();
        if self.store.durability.writer.says_complete() {
            let promise = self.next_promise();
            self.write_now(promise, was_kept);
        }
    }

    /// Covers a lease that is about to arrive in the state file. RESTORE, and so MIGRATE of a key, brings no longer
    /// lease than a new one; a lease that arrives with its slot is never too long.
    ///
    /// # Errors
    /// Fails with the reason why the lease cannot be covered.
    pub fn cover(&mut self, key: Key<'_>, fence: Fence, ttl: Millis) -> Result<(), &'static str> {
        let time = self.time();
        let is_restored = !self.store.arriving.slots.imports(key.name);
        let needed = self.node.needs((fence, ttl), is_restored, time);
        let needed = needed.map_err(|_| "its lease is longer than dlock.max-ttl allows here")?;
        match needed.is_none_or(|promise| self.write_now(promise, false)) {
            true => Ok(()),
            false => Err("the state file cannot be written, and does not cover what is stored"),
        }
    }

    /// Covers everything that has arrived from other nodes. False: the write failed.
    pub fn cover_all(&mut self) -> bool {
        self.node.durable.is_covered() || {
            let promise = self.next_promise();
            self.write_now(promise, false)
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
        self.write_now(promise, false);
    }

    fn write_now(&mut self, promise: Promise, anyway: bool) -> bool {
        let written = self.store.durability.write_now(&promise, anyway);
        if written {
            self.node.promised(promise);
        }
        self.look_for_doubt();
        written
    }

    fn next_promise(&mut self) -> Promise {
        let time = self.time();
        let claim = self.may_claim_log(time.now);
        self.store.durability.writer.set_complete_log(claim);
        self.node.next_promise(self.store.index.last_end(), time)
    }

    /// The log with which a crash now would lose nothing: it has all grants, or they have ended.
    fn may_claim_log(&self, now: Instant) -> Option<u64> {
        let may = !self.node.is_following() && !self.node.is_in_quarantine(now);
        self.store.durability.complete_log.filter(|_| may)
    }

    /// Notes if the file claims a complete log though that is not true any more.
    fn look_for_doubt(&mut self) {
        let doubt =
            self.store.durability.writer.says_complete() && self.may_claim_log(now()).is_none();
        self.node.durable.doubt(doubt);
    }

    /// All leases that are held. Evicted ones count, and do not come back.
    fn all_leases(&self) -> Ended {
        let mut all = Ended::default();
        self.store.index.each(|key, mode, grant| all.add(key, mode, grant));
        if self.node.evicted_left(now()) > Millis(0) {
            all.add_evicted();
        }
        all
    }
}
