//! News for operators while locks go on working.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tracing::{info, warn};

use crate::key::Key;
use crate::report::error::Name;
use crate::report::{Length, Lines, Report};

/// An event for operators: locks go on working.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Notice {
    /// An address leads to another server than before. That server lacks the locks of the former one.
    Stranger {
        /// The node: its address, without secrets.
        node: String,
        /// Node-id of the former server.
        before: String,
        /// Node-id of the present server.
        now: String,
    },
    /// Another server of a node is the primary now. It has the locks that the former primary had replicated
    /// to it, and grants none while there may be others.
    Promoted {
        /// The node: its address, without secrets.
        node: String,
        /// Address of the new primary.
        server: String,
        /// Time until it grants locks.
        quarantine: Duration,
    },
    /// A caller waits, and no majority of the nodes can grant the lock. The wait goes on.
    Outage {
        /// The lock.
        key: Key,
        /// Number of nodes that are a majority.
        needed: usize,
        /// Last known state of each node.
        nodes: Vec<Report>,
    },
    /// A lock was released, and no majority of the nodes has confirmed that. The client asks them again in
    /// the background. No other client gets the lock until a majority has answered or the leases have
    /// ended.
    NotReleased {
        /// The lock.
        key: Key,
        /// Number of nodes that are a majority.
        needed: usize,
        /// Number of nodes.
        of: usize,
        /// The nodes that have not released it, and their states.
        left: Vec<Report>,
        /// Time until the leases there have ended, at most.
        within: Duration,
    },
    /// A majority of the nodes answers again.
    Back {
        /// The lock that a caller waits for.
        key: Key,
    },
}

impl Notice {
    /// Name for programs, the same in the libraries of all languages.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Notice::Stranger { .. } => "stranger",
            Notice::Promoted { .. } => "promoted",
            Notice::Outage { .. } => "outage",
            Notice::NotReleased { .. } => "not_released",
            Notice::Back { .. } => "back",
        }
    }
}

/// The application's listener, if there is one.
#[derive(Clone, Default)]
pub(crate) struct Listener(Option<Arc<Tell>>);

type Tell = dyn Fn(&Notice) + Send + Sync;

impl Listener {
    pub(crate) fn new(listener: impl Fn(&Notice) + Send + Sync + 'static) -> Listener {
        Listener(Some(Arc::new(listener)))
    }

    pub(crate) fn tell(&self, notice: &Notice) {
        match notice {
            Notice::Back { .. } | Notice::Promoted { .. } => info!("{notice}"),
            _ => warn!("{notice}"),
        }
        self.hear(notice);
    }

    /// Passes on a notice that the log has already.
    pub(crate) fn hear(&self, notice: &Notice) {
        if let Some(listener) = &self.0 {
            listener(notice);
        }
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Listener" } else { "Nobody" })
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Notice::Stranger { node, before, now } => write!(
                f,
                "{node} leads to another server than before (node-id {now}, before {before}): it \
                 does not know the locks that the former server granted"
            ),
            Notice::Promoted { node, server, quarantine } if quarantine.is_zero() => {
                write!(f, "{server} is the primary of {node} now")
            }
            Notice::Promoted { node, server, quarantine } => write!(
                f,
                "{server} is the primary of {node} now; it grants nothing for {} more: there may be \
                 leases that it does not know",
                Length(*quarantine)
            ),
            Notice::Outage { key, needed, nodes } => write!(
                f,
                "waiting for {}, though no majority of the nodes can grant it: {needed} of {} are \
                 needed{}",
                Name(key),
                nodes.len(),
                Lines(nodes)
            ),
            Notice::NotReleased { key, needed, of, left, within } => write!(
                f,
                "{} stays held for up to {} more, unless its release reaches {needed} of {of} nodes \
                 before that{}",
                Name(key),
                Length(*within),
                Lines(left)
            ),
            Notice::Back { key } => {
                write!(f, "a majority of the nodes answers again; waiting for {}", Name(key))
            }
        }
    }
}
