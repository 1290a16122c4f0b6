//! Whether anybody listens to what is replicated: a replica, a backlog that one could come back
//! to, or the AOF.
//!
//! The server throws away what nobody listens to, but only after this module has put it together,
//! which costs more than the rest of a grant. So on a server without replicas and AOF it is not
//! put together at all.
//!
//! Being wrong in one direction costs a little time, in the other a lost effect. Hence: somebody
//! listens, unless a look at the server has said otherwise and nothing has happened since that
//! could have changed it. A new listener starts from a snapshot, and a snapshot begins
//! with a fork, of which the server tells at once; a partial resynchronisation needs a backlog,
//! which the look has not seen; a role, a configuration or a data set that changes is told of.

use crate::ffi::context::Ctx;

/// What is known of it.
pub struct ReplicationDemand {
    possible: bool,
}

impl Default for ReplicationDemand {
    fn default() -> ReplicationDemand {
        ReplicationDemand { possible: true }
    }
}

impl ReplicationDemand {
    /// Whether effects have to be replicated.
    pub fn is_possible(&self) -> bool {
        self.possible
    }

    /// Something has happened after which somebody may listen.
    pub fn may_have_come(&mut self) {
        self.possible = true;
    }

    /// Looks at the server, from its cron, when no command is under way.
    pub fn look(&mut self, ctx: Ctx<'_>) {
        self.possible = self.possible && ctx.has_audience();
    }
}
