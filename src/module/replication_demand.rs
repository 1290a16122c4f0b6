//! The need to replicate: a replica, a backlog that one could come back to, or the AOF.
//!
//! Without these the server throws replicated commands away, but only after this module has put them
//! together, which costs more than the rest of a grant. So on a server without replicas and AOF the
//! module does not put them together at all.
//!
//! An error in one direction costs a little time, in the other a lost effect. Hence the module
//! replicates, unless a look at the server has found no receiver and nothing has happened since that
//! could have changed that. A new receiver starts from a snapshot, and a snapshot begins with a fork,
//! which the server reports at once; a partial resynchronisation needs a backlog, which the look has not
//! found; the server also reports changes of role, configuration and data set.

use crate::ffi::context::Ctx;

/// The result of the last look.
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

    /// Looks at the server, from its cron, when no command is under way.
    pub fn look(&mut self, ctx: Ctx<'_>) {
        self.possible = self.possible && ctx.has_audience();
    }
}
