//! The node's books: what is promised, from the first moment of a life to its last.

use std::path::Path;

use dlock_core::{Ended, Fence, Instant, Key, Millis, Promise, Record, Start};

use crate::ffi::context::{Ctx, log, now};
use crate::promises::{Beginning, count_keys};
use crate::state::State;

impl State {
    /// The module is being loaded: takes the state file.
    ///
    /// # Errors
    /// What is wrong with the file, for the operator.
    pub fn open_books(&mut self, ctx: Ctx<'_>) -> Result<(), String> {
        let path = self.store.promises.state_file.clone();
        let before = if path.is_empty() {
            None
        } else {
            self.store.promises.ledger.open(Path::new(&path))?
        };
        if let Some(before) = &before {
            let Record { fence, unix, ref bounds, .. } = *before;
            self.node.resume(&Promise { fence, unix, bounds: bounds.clone() }, now());
            // Nothing is granted before the data set is loaded, so what the last life left behind
            // stays true; but a log that is not complete now may be cut while it is loaded.
            let complete = before.log_is_complete && ctx.log_is_complete();
            self.store.promises.ledger.keep_log_complete(complete);
        }
        self.store.promises.ledger.write_first()?;
        // A server that runs already may be about to begin its log.
        self.store.promises.log_is_kept = !ctx.had_connections();
        self.store.promises.beginning = Some(Beginning { before });
        Ok(())
    }

    /// Begins, if nothing is being loaded. A server with no data set loads none, and does not
    /// tell.
    pub fn begin_if_loaded(&mut self, ctx: Ctx<'_>) {
        if !self.store.promises.have_begun() && !self.store.incoming.is_loading() {
            self.begin(ctx);
        }
    }

    /// The data set is there: what may have been forgotten?
    pub fn begin(&mut self, ctx: Ctx<'_>) {
        let Some(Beginning { before }) = self.store.promises.beginning.take() else { return };
        let time = self.time();
        let leads = !ctx.flags().is_replica();
        self.store.promises.log_is_kept &= leads && ctx.log_is_complete();
        // With no log there is nothing to be complete.
        let log_is_complete = self.store.promises.log_is_kept && self.store.promises.loads_log;
        let (back, held) = (self.roll(), self.node.held(self.store.index.held(), time.now));
        let start = Start { before: before.as_ref(), log_is_complete, back, held: &held };
        self.node.begin(&start, leads, time);
        let ledger = &self.store.promises.ledger;
        let file = ledger
            .path()
            .map_or("no state file".to_owned(), |path| format!("state file {}", path.display()));
        let (node, boot) = (ledger.node_id(), ledger.boot());
        log(c"notice", &format!("node {node:032x}, boot {boot}, {file}"));
        self.promise_now();
        self.log_quarantine();
    }

    /// Ten times a second or so.
    pub fn keep_books(&mut self, now: Instant) {
        if let Some(promise) = self.store.promises.ledger.written() {
            self.node.promised(promise);
            self.store.promises.tell();
            self.look_for_doubt();
        }
        self.remind(now);
        let time = self.time();
        self.refusing(time);
        if !self.store.promises.have_begun() || !self.store.promises.ledger.is_ready(now) {
            return;
        }
        let failing = self.store.promises.ledger.failure().is_some();
        let untold = self.may_claim_log(now) != self.store.promises.ledger.says_complete();
        if failing || untold || self.node.should_promise(time) {
            let promise = self.next_promise();
            self.store.promises.ledger.write(promise, now);
        }
    }

    /// A server that follows another replica hears nothing but what is told again. But what is
    /// replicated counts as a change that has to be saved, so an idle node says nothing.
    fn remind(&mut self, now: Instant) {
        let (fence, bound) = (self.node.fence(), self.node.bounds().longest());
        self.store.promises.tell_again(fence, bound, now);
    }

    /// The server shuts down.
    pub fn close_books(&mut self) {
        let time = self.time();
        self.finish_taken();
        if !self.store.promises.have_begun() {
            // What the last life left behind still stands.
            return;
        }
        // What a replica, or a node in quarantine, does not know cannot be told from what it does.
        let unsure = self.node.is_following() || self.node.may_have_forgotten(time.now);
        let (promise, ended) = if unsure {
            (self.next_promise(), None)
        } else {
            let promise = self.node.last_promise(self.store.index.held(), time);
            (promise, Some(self.roll()))
        };
        self.store.promises.ledger.end(promise, ended, time.now);
    }

    /// The log may miss something from now on. The state file has to say so before anything can
    /// rely on it.
    pub fn note_incomplete_log(&mut self) {
        self.store.promises.log_is_kept = false;
        if self.store.promises.ledger.says_complete() {
            self.promise_now();
        }
    }

    /// A lease is about to arrive, which the state file has to cover. False: it cannot be written.
    pub fn cover(&mut self, key: Key<'_>, fence: Fence, ttl: Millis) -> bool {
        let time = self.time();
        let needed = self.node.needs(key, fence, ttl, time);
        needed.is_none_or(|promise| self.write_now(promise))
    }

    /// What has arrived from elsewhere has to be covered. False: the state file cannot be written.
    pub fn cover_all(&mut self) -> bool {
        self.node.is_covered() || {
            let promise = self.next_promise();
            self.write_now(promise)
        }
    }

    pub fn log_quarantine(&self) {
        if let Some(quarantine) = self.node.in_quarantine()
            && !self.node.is_following()
        {
            let (left, cause) = (quarantine.left(now()), quarantine.cause);
            let (usual, longest, keys) = (left.usual().0, left.longest().0, left.long_keys());
            let all = (usual > 0).then(|| format!("nothing is granted for {usual} ms"));
            let few = (keys > 0)
                .then(|| format!("{} may be held for up to {longest} ms", count_keys(keys)));
            let both: Vec<String> = all.into_iter().chain(few).collect();
            let refused = both.join(", and ");
            log(
                c"notice",
                &format!(
                    "quarantine: {refused}, because {cause}. CONFIG SET dlock.quarantine off ends it"
                ),
            );
        }
    }

    /// Writes the state file, and waits until it is done.
    pub fn promise_now(&mut self) {
        let promise = self.next_promise();
        self.write_now(promise);
    }

    fn write_now(&mut self, promise: Promise) -> bool {
        let written = self.store.promises.write_now(&promise);
        if written {
            self.node.promised(promise);
        }
        self.look_for_doubt();
        written
    }

    fn next_promise(&mut self) -> Promise {
        let time = self.time();
        let claim = self.may_claim_log(time.now);
        self.store.promises.ledger.set_log_is_complete(claim);
        self.node.next_promise(self.store.index.held(), time)
    }

    /// Whether a crash now would lose nothing: all that was granted is in the log, or has ended.
    fn may_claim_log(&self, now: Instant) -> bool {
        self.store.promises.log_is_kept
            && !self.node.is_following()
            && !self.node.may_have_forgotten(now)
    }

    /// Whether the file says so though it is not true any more.
    fn look_for_doubt(&mut self) {
        let doubt = self.store.promises.ledger.says_complete() && !self.may_claim_log(now());
        self.node.doubt(doubt);
    }

    /// All leases that are held.
    fn roll(&self) -> Ended {
        let mut all = Ended::default();
        self.store.index.each(|key, mode, grant| all.add(key, mode, grant));
        all
    }
}
