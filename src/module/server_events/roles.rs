//! Changes of the server's role, and replicas that connect.

use crate::ffi::context::now;
use crate::state::{self, State};

/// Handles a change of this server's role.
pub fn role_changed(replica: bool) {
    state::with(|state| {
        let now = now();
        state.store.replication.may_have_come();
        if replica {
            state.finish_taken();
            state.node.demoted(&mut state.store.blocked, now);
        } else if state.store.durability.have_begun() {
            let time = state.time();
            state.node.promoted(time);
            state.promise_now();
            state.log_quarantine();
        }
        state.set_alarm(now);
    });
}

/// Notes that the server has forked, or that a child has ended: a snapshot may have begun. No promise is due: it would
/// count as a change of the data, which makes the server fork again.
pub fn forked() {
    state::with(|state| {
        state.store.arriving.slots.forked();
        state.store.replication.may_have_come();
    });
}

/// Notes that a replica has connected.
pub fn replica_has_come() {
    state::with(|state| {
        state.store.replication.may_have_come();
        state.store.durability.owes_promise = true;
        state.set_alarm_if_pending();
    });
}

impl State {
    /// Makes this node follow another.
    pub fn step_down(&mut self) {
        self.finish_taken();
        self.node.follow(&mut self.store.blocked, now());
    }
}
