//! What an operator should know while the work goes on.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tracing::{info, warn};

use crate::key::Key;
use crate::report::error::Name;
use crate::report::{Length, Lines, Report};

/// Something that an operator should know, though the work goes on.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Notice {
    /// An address leads to another server than before. That server does not know the locks that the former
    /// one granted.
    Stranger {
        /// The node: its address, without secrets.
        node: String,
        /// The node-id of the server that was there before.
        before: String,
        /// That of the one that is there now.
        now: String,
    },
    /// Another server of a node is the primary now. It knows the locks that the former one had told it
    /// of, and grants none for as long as there may be others.
    Promoted {
        /// The node: its address, without secrets.
        node: String,
        /// Where the new primary is.
        server: String,
        /// For how long it grants nothing.
        quarantine: Duration,
    },
    /// No majority of the nodes can grant a lock for which a caller waits. The wait goes on.
    Outage {
        /// The lock that is waited for.
        key: Key,
        /// How many nodes are a majority.
        needed: usize,
        /// What each node said last.
        nodes: Vec<Report>,
    },
    /// A lock was released, and no majority of the nodes has heard of that. They are asked again in the
    /// background; until a majority has answered, or the leases have ended, nobody else gets the lock.
    NotReleased {
        /// The lock.
        key: Key,
        /// How many nodes are a majority.
        needed: usize,
        /// How many nodes there are.
        of: usize,
        /// Those that have not released it, and what they said.
        left: Vec<Report>,
        /// When the leases end there, at the latest.
        within: Duration,
    },
    /// A majority of the nodes answers again.
    Back {
        /// The lock that is waited for.
        key: Key,
    },
}

impl Notice {
    /// A word for programs, the same in the libraries of all languages.
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

/// Who is told.
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
