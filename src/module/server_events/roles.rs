//! The server becomes a replica, or a primary; and replicas come.

use crate::ffi::context::now;
use crate::moved_keys::MovedKeys;
use crate::state::{self, State, Store};

/// This server is a replica from now on, or none any more.
pub fn role_changed(replica: bool) {
    state::with(|state| {
        let now = now();
        state.store.replication.may_have_come();
        if replica {
            state.step_down();
            // What it knows is from its primary from now on, and may lack what is on its way.
            state.note_incomplete_log();
        } else if state.store.durability.have_begun() {
            let time = state.time();
            state.node.promoted(time);
            state.promise_now();
            state.log_quarantine();
        }
        state.set_alarm(now);
    });
}

/// The server has a child process, or has none any more: a snapshot may have begun.
pub fn forked() {
    state::with(|state| state.store.arriving.slots.forked());
    replica_may_have_come();
}

/// A replica may have connected, or a log may have begun.
pub fn replica_may_have_come() {
    state::with(|state| {
        state.store.replication.may_have_come();
        state.store.durability.tell();
        state.set_alarm_if_pending();
    });
}

impl State {
    /// Somebody else decides from now on.
    pub fn step_down(&mut self) {
        self.finish_taken();
        self.node.follow(&mut self.store.blocked, now());
        let Store { moved_keys: MovedKeys { evicted, .. }, index, .. } = &mut self.store;
        evicted.blocks().for_each(|block| index.remove(block));
        evicted.forget_all(|_| true);
    }
}
