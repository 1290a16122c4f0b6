//! The need to replicate: a replica, a backlog for a returning one, or the AOF.
//!
//! Without these the server discards replicated commands, but only after this module has built them, which
//! costs more than the rest of a grant. So on a server without replicas and AOF the module does not build them.
//!
//! An error in one direction costs a little time, in the other a lost effect. So the module replicates unless a
//! check of the server has found no receiver, and no event since can have added one. A new receiver starts from
//! a snapshot, and a snapshot begins with a fork, which the server reports at once. A partial resynchronisation
//! needs a backlog, and the check has found none. The server also reports changes of role, configuration and
//! data set.

use crate::ffi::context::Ctx;

/// The result of the last check.
pub struct ReplicationDemand {
    possible: bool,
}

impl Default for ReplicationDemand {
    fn default() -> ReplicationDemand {
        ReplicationDemand { possible: true }
    }
}

impl ReplicationDemand {
    /// True if effects have to be replicated.
    pub fn is_possible(&self) -> bool {
        self.possible
    }

    /// Notes an event after which there may be a receiver.
    pub fn may_have_come(&mut self) {
        self.possible = true;
    }

    /// Checks the server, from its cron, when no command is under way.
    pub fn look(&mut self, ctx: Ctx<'_>) {
        self.possible = self.possible && ctx.has_audience();
    }
}
