//! The state that all connections share.

use std::sync::Arc;

use dlock_client::{Client, Token};
use nix::unistd::gethostname;

use super::figures::Figures;
use super::flag::Flag;
use super::lock::Locks;
use super::lock::order::Common;
use super::losses::Losses;
use super::peer::Allow;
use super::room::Connections;

pub struct Agent {
    pub common: Arc<Common>,
    /// Id of this process, for a client that takes it for a node.
    pub id: String,
    pub host: String,
    pub allow: Allow,
    /// The digest of the password, if there is one.
    pub password: Option<[u8; 32]>,
    pub locks: Arc<Locks>,
    /// True once the agent is shutting down.
    pub ending: Flag,
    pub connections: Connections,
}

impl Agent {
    /// An agent of these nodes, in a process that may have this many open files.
    pub fn new(client: Client, allow: Allow, password: Option<[u8; 32]>, files: u64) -> Arc<Agent> {
        let common = Arc::new(Common {
            client,
            figures: Arc::new(Figures::new()),
            losses: Losses::default(),
            handed_over: Vec::new().into(),
        });
        Arc::new(Agent {
            id: Token::random().to_string(),
            host: gethostname().unwrap_or_default().to_string_lossy().into_owned(),
            allow,
            password,
            locks: Locks::new(&common),
            ending: Flag::default(),
            connections: Connections::of(files, &common.figures.connections),
            common,
        })
    }
}
