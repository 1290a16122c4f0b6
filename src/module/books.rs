//! The node's books: what is promised, from the first moment of a life to its last.

use std::path::Path;

use dlock_core::{Ended, Instant, Millis, Promise, Start};

use crate::ffi::context::{Ctx, log, now};
use crate::state::{Beginning, State};

impl State {
    /// The module is being loaded: takes the state file, and promises what this life needs.
    ///
    /// # Errors
    /// What is wrong with the file, for the operator.
    pub fn open_books(&mut self) -> Result<(), String> {
        let path = self.store.state_file.clone();
        let before =
            if path.is_empty() { None } else { self.store.ledger.open(Path::new(&path))? };
        if let Some(before) = &before {
            self.node.resume(Promise { fence: before.fence, bound: before.bound });
        }
        let time = self.time();
        let promise = self.node.next_promise(None, time);
        self.store.ledger.write_first(promise)?;
        self.node.promised(promise);
        self.store.beginning = Some(Beginning { before });
        Ok(())
    }

    /// Begins, if nothing is being loaded. A server with no data set loads none, and does not
    /// tell.
    pub fn begin_if_loaded(&mut self, ctx: Ctx<'_>) {
        if self.store.beginning.is_some() && !self.store.is_loading {
            self.begin(ctx);
        }
    }

    /// The data set is there: what may have been forgotten?
    pub fn begin(&mut self, ctx: Ctx<'_>) {
        let Some(Beginning { before }) = self.store.beginning.take() else { return };
        let time = self.time();
        let leads = !ctx.flags().is_replica();
        let log_is_complete = leads && ctx.log_is_complete();
        let (back, longest) = self.roll();
        let start = Start { before: before.as_ref(), log_is_complete, back, longest };
        self.node.begin(&start, leads, time.now);
        let ledger = &mut self.store.ledger;
        ledger.set_log_is_complete(log_is_complete);
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
        if let Some(promise) = self.store.ledger.written() {
            self.node.promised(promise);
            self.store.tell_promise = true;
        }
        let time = self.time();
        let failing = self.store.ledger.failure().is_some();
        if (failing || self.node.should_promise(time)) && self.store.ledger.is_ready(now) {
            let promise = self.node.next_promise(self.store.index.last(), time);
            self.store.ledger.write(promise, now);
        }
        self.refusing(time);
    }

    /// The server shuts down.
    pub fn close_books(&mut self) {
        let now = now();
        self.finish_taken();
        // What a replica, or a node in quarantine, does not know cannot be told from what it does.
        let unsure = self.node.is_following() || self.node.is_in_quarantine(now);
        let (promise, ended) = if unsure {
            let time = self.time();
            (self.node.next_promise(self.store.index.last(), time), None)
        } else {
            let promise = self.node.last_promise(self.store.index.last(), now);
            (promise, Some(self.roll().0))
        };
        self.store.ledger.end(promise, ended, now);
    }

    /// The log may miss something from now on. The state file has to say so before anything can
    /// rely on it.
    pub fn note_incomplete_log(&mut self) {
        if self.store.ledger.log_is_complete() {
            self.store.ledger.set_log_is_complete(false);
            self.promise_now();
        }
    }

    pub fn log_quarantine(&self) {
        if let Some(quarantine) = self.node.in_quarantine() {
            let left = quarantine.until.left(now()).0;
            log(
                c"notice",
                &format!(
                    "quarantine: nothing is granted for {left} ms, because {}. CONFIG SET \
                     dlock.quarantine off ends it",
                    quarantine.why
                ),
            );
        }
    }

    fn promise_now(&mut self) {
        let time = self.time();
        let promise = self.node.next_promise(self.store.index.last(), time);
        if self.store.ledger.write_now(promise, time.now) {
            self.node.promised(promise);
            self.store.tell_promise = true;
        }
    }

    /// All leases that are held, and the length of the longest.
    fn roll(&self) -> (Ended, Millis) {
        let (mut all, mut longest) = (Ended::default(), Millis(0));
        self.store.index.each(|key, mode, grant| {
            all.add(key, mode, grant);
            longest = longest.max(grant.lease.ttl);
        });
        (all, longest)
    }
}
